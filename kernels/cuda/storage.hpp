// How activations lie in device memory: channels-last like everywhere, in the storage type, with the channels padded to
// whole vectors of 16 bytes. Pad channels hold zeros, in values and in gradients.
#pragma once

#include "kernels/tensor.hpp"

namespace mrmf::cuda {

struct Storage {
  bool bf16 = false;  ///< else float32
  Index pad = 4;      ///< channels are a multiple of this: the elements of 16 bytes

  static Storage of(bool bf16) { return {bf16, bf16 ? 8 : 4}; }

  Index channels(Index c) const { return vectors(c) * pad; }
  /// Vectors of 16 bytes that hold the channels of one position.
  Index vectors(Index c) const { return (c + pad - 1) / pad; }
  Index bytes() const { return bf16 ? 2 : 4; }  ///< of one element

  Shape stored(Shape shape) const {
    shape.channels = channels(shape.channels);
    return shape;
  }
  /// Floats of a span that holds an activation: four to each vector.
  Index floats(const Shape& shape) const { return shape.n * product(shape.spatial) * vectors(shape.channels) * 4; }
};

}  // namespace mrmf::cuda
