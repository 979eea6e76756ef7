// Lion's update, whole and in its two halves.
#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/ranges.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

inline void update(const LionStep& step, float* __restrict w, const float* __restrict dw, float* __restrict m,
                   Index count) {
  const LionStep s = step;
  for (Index i = 0; i < count; ++i) lion_update(s, w[i], dw[i], m[i]);
}

inline void directions(const LionStep& step, float* __restrict dw, float* __restrict m, Index count) {
  const LionStep s = step;
  for (Index i = 0; i < count; ++i) dw[i] = lion_direction(s, dw[i], m[i]);
}

inline void move(const LionStep& step, float* __restrict w, const float* __restrict directions, Index count) {
  const LionStep s = step;
  for (Index i = 0; i < count; ++i) lion_move(s, w[i], directions[i]);
}

}  // namespace

void CpuBackend::lion(const StepContext& step, Span w, ConstSpan dw, Span m) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised([&] { update(step.lion, w.data() + first, dw.data() + first, m.data() + first, count); });
  });
}

void CpuBackend::lion_directions(const StepContext& step, Span dw, Span m) {
  for_ranges(std::ssize(dw), [&](Index first, Index count) {
    vectorised([&] { directions(step.lion, dw.data() + first, m.data() + first, count); });
  });
}

void CpuBackend::lion_move(const StepContext& step, Span w, ConstSpan directions) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised([&] { move(step.lion, w.data() + first, directions.data() + first, count); });
  });
}

}  // namespace mrmf::cpu
