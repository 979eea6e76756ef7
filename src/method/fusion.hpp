// Model fusion (paper section 3.2): the dense model takes the coarse model's bottom layers and, if asked for, its top.
// The top is interpolated along the flattened positions, because the denser model's flattened vector is longer. Or the
// dense model is the coarse one behind a new first layer, and takes all of it (layers/stem.hpp).
#pragma once

#include "layers/network.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

/// Linear interpolation of rows x (positions of `from`) x channels to the positions of `to`, axis by axis. Position i
/// of L lies at (i + 1/2) / L; beyond the outermost coarse centres the value is constant. Values are multiplied by
/// `scale`. Both extents are channels-last; x has rows * product(from) * channels floats, y the same for `to`.
struct Resample {
  Index rows = 1, channels = 1;
  Extent from{1, 1, 1}, to{1, 1, 1};
  float scale = 1.0F;
};
void resample(const Resample& how, ConstSpan x, Span y);

/// The contents of an arena of the two models. Moments are laid out as parameters.
enum class Content { params, state, moments };

/// Copies or interpolates every top layer's slice of `coarse` into `dense`. Copies layers of equal signature and
/// interpolates a flat batch norm. Interpolates a dense layer over the flattened vector and scales its weights by
/// coarse / dense length, so that its sums keep their size (gradients, and so moments, keep theirs unscaled). A layer
/// that fits neither way is a ConfigError of require_transferable(), before anything is copied. With only_matching,
/// layers that are not equal are left unchanged instead.
/// The arenas are in the host's memory, and laid out as the networks' own: weights are whole.
struct TopTransfer {
  const Network& coarse;
  const Network& dense;
  bool only_matching = false;
};
void require_transferable(const TopTransfer& networks);
void transfer_top(const TopTransfer& networks, Content content, ConstSpan coarse, Span dense);

/// ConfigError naming the first layer that cannot be transferred. Bottoms must be equal; an interpolated top's layers
/// must be equal or sized by the flattened positions; behind a stem, outputs have no positions. Needs no data, so a
/// plan is checked before anything runs.
void require_fusible(const Network& coarse, const Network& dense, const Fusion& fusion);

/// Makes `dense` the fused model. Afterwards `dense` holds the coarse bottom (parameters and state). Its top is what
/// fuse.top says: its own (trained or fresh), or the coarse model's, interpolated. `coarse` is left with the rest. With
/// TopRule::stem `dense` is the coarse network behind a stem, which reads finer data; `coarse` stays as it is.
///   * Contents move, addresses stay. Where the ranks of a grid hold row-parallel weights, these are put together on
///   the way.
///   * Moments: reset zeroes the fused model's optimizer; carry moves the coarse bottom's moments along, and those of
///     an interpolated top. Bottom and top each keep the age of their moments, for Adam's bias correction. Behind a
///     stem all moments are carried but those of new_layers(), which are the finer network's bottom and begin anew.
/// requires: require_fusible() of the two networks; no carry with fusion.matching. Collective over the models' groups.
void fuse(Backend& backend, ModelState& coarse, ModelState& dense, const Fusion& fusion);

}  // namespace mrmf
