// The step of SGD as a loop that vectorised() compiles for each instruction set: over an arena, or over the weights of
// a position whose gradient was just made.
#pragma once

#include "kernels/formulas.hpp"

namespace mrmf::cpu {

/// velocity may be null where there is no momentum.
inline void sgd_range(const SgdStep& step, float* __restrict w, const float* __restrict dw, float* __restrict velocity,
                      Index count) {
  const SgdStep s = step;
  if (velocity == nullptr)
    for (Index i = 0; i < count; ++i) sgd_update(s, w[i], dw[i]);
  else
    for (Index i = 0; i < count; ++i) sgd_update(s, w[i], dw[i], velocity[i]);
}

}  // namespace mrmf::cpu
