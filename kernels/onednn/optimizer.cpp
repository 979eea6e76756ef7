// Optimizer steps over an arena: one pass, bound by memory traffic.
#include "kernels/formulas.hpp"
#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/parallel.hpp"
#include "kernels/onednn/vectorise.hpp"

namespace mrmf::onednn {
namespace {

inline void sgd_range(const SgdStep& step, float* __restrict w, const float* __restrict dw, float* __restrict velocity,
                      Index count) {
  const SgdStep s = step;
  for (Index i = 0; i < count; ++i) sgd_update(s, w[i], dw[i], velocity[i]);
}

inline void adam_range(const AdamStep& step, float* __restrict w, const float* __restrict dw, float* __restrict m,
                       float* __restrict v, Index count) {
  const AdamStep s = step;
  for (Index i = 0; i < count; ++i) adam_update(s, w[i], dw[i], m[i], v[i]);
}

}  // namespace

void sgd(const SgdStep& step, Span w, ConstSpan dw, Span velocity) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised([&] { sgd_range(step, w.data() + first, dw.data() + first, velocity.data() + first, count); });
  });
}

void adam(const AdamStep& step, Span w, ConstSpan dw, Span m, Span v) {
  for_ranges(std::ssize(w), [&](Index first, Index count) {
    vectorised(
        [&] { adam_range(step, w.data() + first, dw.data() + first, m.data() + first, v.data() + first, count); });
  });
}

}  // namespace mrmf::onednn
