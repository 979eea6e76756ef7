// The halo exchange: positions that a layer needs and other ranks have come in messages before its forward, and their
// gradients go back after its backward.
#pragma once

#include <memory>

#include "layers/layer.hpp"
#include "layers/partition.hpp"

namespace mrmf {

struct HaloExchangeSettings {
  Shape shape;  ///< shape of the whole tensor; n: the most rows
  Grid grid;
  int rank = 0;    ///< in the grid
  Placement from;  ///< where the tensor is
  Cut to;          ///< where it is needed
};

/// x has the positions made here, y those needed here. Backward adds the gradients of a position from all ranks that
/// needed it, in the order of ranks. Needs Step::halo_messages.
///
/// Where one sample's blocks are slabs of its first axis, they are contiguous: then x may lie in y between the margins,
/// which are received in place, and dx in dy (Footprint::margin). A message holds the same floats either way, so ranks
/// need not agree.
std::unique_ptr<Layer> make_halo_exchange(Backend& backend, const HaloExchangeSettings& settings);

/// Floats that this rank sends for a row in forward, which are those that it receives in backward; without padding.
Index halo_exchange_floats(const HaloExchangeSettings& settings);

}  // namespace mrmf
