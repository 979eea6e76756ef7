// What reconstruction ICA has beside the products of its untied weights: the penalty of features, and rows of one
// length.
#include <cmath>

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {

void CpuBackend::add_sparsity(const StepContext& step, const SparsitySettings& settings, ConstTensor x, Tensor dx) {
  const float factor = settings.weight * step.loss_weight;
  const Index groups = std::ssize(x.data) / settings.pooled;
#pragma omp parallel for schedule(static)
  for (Index group = 0; group < groups; ++group)
    add_sparsity_of_group(settings, factor, x.data.data() + group * settings.pooled,
                          dx.data.data() + group * settings.pooled);
}

void CpuBackend::scale_rows(Span w, Index count, float length) {
  const Index rows = std::ssize(w) / count;
#pragma omp parallel for schedule(static)
  for (Index r = 0; r < rows; ++r)
    vectorised([row = w.data() + r * count, count, length] {
      constexpr Index chains = 64;  // sums that do not wait for each other
      float part[chains] = {}, squares = 0;
      Index first = 0;
      for (; first + chains <= count; first += chains)
#pragma omp simd
        for (Index i = 0; i < chains; ++i) part[i] += row[first + i] * row[first + i];
      for (; first < count; ++first) squares += row[first] * row[first];
      for (const float sum : part) squares += sum;
      const float factor = squares > 0 ? length / std::sqrt(squares) : 1;
      for (Index i = 0; i < count; ++i) row[i] *= factor;
    });
}

}  // namespace mrmf::cpu
