// The optimizers' updates of an arena, Lion's also in its two halves: one pass, bound by memory traffic.
#include "kernels/cpu/channel_and_sgd_loops.hpp"

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {
namespace {

inline void adam_range(const AdamStep& step, float* __restrict w, const float* __restrict dw, float* __restrict m,
                       float* __restrict v, Index count) {
  const AdamStep s = step;
  for (Index i = 0; i < count; ++i) adam_update(s, w[i], dw[i], m[i], v[i]);
}

inline void lion_range(const LionStep& step, float* __restrict w, const float* __restrict dw, float* __restrict m,
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

void CpuBackend::sgd(const StepContext& step, Span w, ConstSpan dw, Span velocity) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    float* const speed = velocity.empty() ? nullptr : velocity.data() + first;
    vectorised([&] { sgd_range(step.sgd, w.data() + first, dw.data() + first, speed, count); });
  });
}

void CpuBackend::adam(const StepContext& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) {
  const AdamStep& numbers = step.adam.at(group);
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised(
        [&] { adam_range(numbers, w.data() + first, dw.data() + first, m.data() + first, v.data() + first, count); });
  });
}

void CpuBackend::lion(const StepContext& step, Span w, ConstSpan dw, Span m) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised([&] { lion_range(step.lion, w.data() + first, dw.data() + first, m.data() + first, count); });
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
