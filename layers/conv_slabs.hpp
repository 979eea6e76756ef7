// A convolution's output slab by slab, so that most of it is computed while messages bring the halo.
#pragma once

#include <memory>
#include <vector>

#include "layers/layer.hpp"

namespace mrmf {

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
  /// A piece of a tensor: its shape, and its place in floats.
  struct Piece {
    Shape shape;
    ArenaSpan place;
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
