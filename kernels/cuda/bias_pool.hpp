// Bias, max pooling (window = stride) and ReLU behind a convolution that wrote its output without bias.
#pragma once

#include "kernels/cuda/work.hpp"
#include "kernels/geometry.hpp"

namespace mrmf::cuda {

/// p = relu(max over the window of (y + b)) of n samples, and its winners, one byte per stored element of p. `b` is
/// float32, one per channel, unpadded. y is read once.
struct BiasPoolForward {
  const void* y;
  const float* b;
  void* p;
  std::uint8_t* winner;
};
void bias_pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolForward& data);

/// The whole of dy (zeros where no gradient arrives) and db, from p, dp and the winners alone, in one pass.
struct BiasPoolBackward {
  const void* p;
  const void* dp;
  const std::uint8_t* winner;
  void* dy;
  float* db;
  void* scratch;  ///< bias_pool_bytes() for at least n samples
};
void bias_pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolBackward& data);
std::size_t bias_pool_bytes(const Storage& storage, const PoolGeometry& geometry, Index n);

}  // namespace mrmf::cuda
