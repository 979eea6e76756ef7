// The positions that a layer needs and other ranks have: messages before its forward, and back after its backward.
#pragma once

#include <memory>

#include "layers/layer.hpp"
#include "layers/partition.hpp"

namespace mrmf {

struct ExchangeSettings {
  Shape shape;  ///< of the whole tensor; n: the most rows
  Grid grid;
  int rank = 0;    ///< in the grid
  Placement from;  ///< where the tensor is
  Cut to;          ///< where it is needed
};

/// x has the positions made here, y those needed here. Backward adds the gradients of a position from all ranks that
/// needed it, in the order of ranks. Needs Step::blocks.
///
/// Where one sample's blocks are slabs of its first axis, they are contiguous: then x may lie in y between the margins,
/// which are received in place, and dx in dy (Footprint::margin). A message holds the same floats either way, so ranks
/// need not agree.
std::unique_ptr<Layer> make_exchange(Backend& backend, const ExchangeSettings& settings);

/// Floats that this rank sends for a row in forward, which are those that it receives in backward; without padding.
Index exchanged_floats(const ExchangeSettings& settings);

}  // namespace mrmf
