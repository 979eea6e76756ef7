// The halo exchange: positions that a layer needs and other ranks have come in messages before its forward, and their
// gradients go back after its backward. And a convolution in slabs, which computes while messages come.
#pragma once

#include <memory>
#include <vector>

#include "layers/layer.hpp"
#include "layers/partition.hpp"

namespace mrmf {

struct HaloExchangeSettings {
  Shape shape;  ///< shape of the whole tensor; n: the most rows
  Grid grid;
  int rank = 0;       ///< in the grid
  Placement from;     ///< where the tensor is
  BlockPositions to;  ///< where it is needed
};

/// x has the positions made here, y those needed here. Backward adds the gradients of a position from all ranks that
/// needed it, in the order of ranks. Needs StepContext::halo_messages.
///
/// Where one sample's blocks are slabs of its first axis, they are contiguous: then x may lie in y between the margins,
/// which are received in place, and dx in dy (Footprint::margin). A message holds the same floats either way, so ranks
/// need not agree.
std::unique_ptr<Layer> make_halo_exchange(Backend& backend, const HaloExchangeSettings& settings);

/// Floats that this rank sends for a row in forward, which are those that it receives in backward; without padding.
Index halo_exchange_floats(const HaloExchangeSettings& settings);

// A convolution's output slab by slab, so that most of it is computed while messages bring the halo.

/// Forward of one sample's convolution as several of the same kind on slabs of positions, which are contiguous in x and
/// y: first those that see nothing but what is there, then the rest.
class ConvSlabs {
 public:
  /// `in`: x; here: of its positions, those that are there at first. Null where that leaves nothing to compute at
  /// first, or is no slab, and for several rows.
  static std::unique_ptr<ConvSlabs> make(Backend& backend, const Shape& in, const ConvGeometry& geometry,
                                         const Box& here);

  void prepare();
  /// Writes what needs only x's positions that are there.
  void begin(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y);
  void end(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y);

 private:
  /// A piece of a tensor: its shape, and its span in the tensor's floats.
  struct Piece {
    Shape shape;
    ArenaSpan span;
  };
  struct Slab {
    std::unique_ptr<WeightedOp> op;
    Piece x, y;
  };
  static void run(const Slab& slab, ConstTensor x, ConstSpan w, ConstSpan b, Tensor y);

  Slab inner_;
  std::vector<Slab> outer_;
};

}  // namespace mrmf
