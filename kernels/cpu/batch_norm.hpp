// Batch norm outside its loops over tensors: sums over parts of the batch and over ranks, statistics, and the loops'
// terms per channel.
#pragma once

#include <omp.h>

#include <algorithm>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {

const norm_loops::Kernels& norm_kernels();

/// Numbers per thread of sums that one thread adds.
inline constexpr Index most_added_serially = Index{1} << 14;

class NormSums {
 public:
  explicit NormSums(const NormSettings& settings);

  /// Writes the batch's mean and inverse deviation over all ranks' rows into `memory`, and updates the running ones.
  void update_statistics(const StepContext& step, ConstSpan x, const NormMemory& memory);
  /// Terms of the batch's statistics in training, of the running ones in evaluation. Valid until this object's next
  /// call.
  norm_loops::Terms terms(const StepContext& step, const NormMemory& memory);

  /// This rank's dgamma and dbeta, from add_up()'s sums of g and of g * (x - mean).
  void parameter_gradients(const NormMemory& memory, Span dgamma, Span dbeta) const;
  /// The terms of dx, from the same sums over all ranks, after terms() of the step. Valid until this object's next
  /// call.
  norm_loops::DataTerms data_terms(const StepContext& step, Index rows, const NormMemory& memory);

  int threads() const { return threads_; }
  /// Shares out the work in parts, then adds up their sums (two per channel) in the order of the parts:
  /// add(first, last, sums).
  template <class Add>
  void add_up(Index count, const Add& add) {
    const Index size = 2 * channels_, parts = std::clamp<Index>(count, 1, parts_);
    share_out(parts, threads_, [&](Index part, Index end, int) {
      for (; part < end; ++part) {
        std::fill_n(partial_.data() + part * size, size, 0.0);
        add(count * part / parts, count * (part + 1) / parts, partial_.data() + part * size);
      }
    });
    std::copy_n(partial_.data(), size, sums_.data());
    for (Index part = 1; part < parts; ++part)
      for (Index i = 0; i < size; ++i) sums_[i] += partial_[part * size + i];
  }

 private:
  float inverse_root(double variance) const;
  void add_moments(ConstSpan x);

  NormSettings settings_;
  Index channels_;
  int threads_;
  Index parts_;
  std::vector<double> partial_;  // per part: two sums per channel
  std::vector<double> sums_;     // two sums per channel, then the number of rows
  std::vector<float> factor_, mean_, ones_, offset_, slope_;
};

}  // namespace mrmf::cpu
