// How far a network of windows looks: what each position of its output depends on.
#pragma once

#include <vector>

#include "layers/network.hpp"
#include "layers/spec.hpp"

namespace mrmf {

struct Reach {
  /// Positions of the input, along each axis, in whose steps the network repeats itself: what its strides and poolings
  /// divide by at the deepest place.
  Extent step{1, 1, 1};
  /// Positions in front of and behind a block of `step`, in whole steps, that the block's output depends on. Padding
  /// counts as positions.
  Extent before{0, 0, 0}, after{0, 0, 0};
  /// The output depends on all positions, as behind a flatten or a norm over positions, or on where a box lies, as with
  /// weights of a position's own.
  bool whole = false;
};

/// The reach of layers whose sizes are resolved for all axes, with as many positions in the output as in the input.
/// Does not need the sizes of samples.
Reach reach_of(const std::vector<LayerSpec>& layers);

}  // namespace mrmf
