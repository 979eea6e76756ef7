// Model fusion (paper section 3.2): the dense model takes the coarse model's bottom layers.
#pragma once

#include "src/training/model_state.hpp"

namespace mrmf {

/// ConfigError naming the first layer that cannot be handed over: bottoms must be equal, and an interpolated top's
/// layers equal or sized by the flattened positions. Needs no data, so a plan is checked before anything runs.
void require_fusible(const Network& coarse, const Network& dense, const FuseStep& step);

/// Makes `dense` the fused model. Afterwards `dense` holds the coarse bottom (parameters and state), and on top what
/// fuse.top says: its own (trained or fresh), or the coarse model's, interpolated. `coarse` is left with the rest.
///   * Contents move, addresses stay.
///   * Moments: reset zeroes the fused model's optimizer; carry moves the coarse bottom's moments along, and those of
///     an interpolated top. Bottom and top each keep the age of their moments, for Adam's bias correction.
/// requires: require_fusible() of the two networks; no carry with step.matching.
void fuse(Backend& backend, Learner& coarse, Learner& dense, const FuseStep& step);

}  // namespace mrmf
