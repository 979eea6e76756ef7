// Model fusion (paper section 3.2): the dense model takes the coarse model's bottom layers.
#pragma once

#include "src/learner.hpp"

namespace mrmf {

/// Makes `dense` the fused model. Afterwards `dense` holds the coarse bottom (parameters and state), and on top what
/// fuse.top says: its own (trained or fresh), or the coarse model's, interpolated. `coarse` is left with the rest.
///   * Contents move, addresses stay.
///   * Bottoms that do not match are a ConfigError naming the first layer that differs.
///   * Moments: reset zeroes the fused model's optimizer; carry moves the coarse bottom's moments along and keeps the
///     larger step count of the two (bias correction must not restart on grown moments).
void fuse(Backend& backend, Learner& coarse, Learner& dense, const FuseStep& step);

}  // namespace mrmf
