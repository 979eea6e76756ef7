// Max and average pooling of stored activations.
#pragma once

#include "kernels/cuda/work.hpp"
#include "kernels/geometry.hpp"

namespace mrmf::cuda {

/// y (n samples, stored) from x. `winner` gets one byte per stored element of y; null for average pooling.
void pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const void* x, void* y,
                  std::uint8_t* winner);

/// Every element of dx from dy; windows may overlap or leave gaps. No atomics: each dx adds what its windows give it.
void pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const void* dy, const std::uint8_t* winner,
                   void* dx);

}  // namespace mrmf::cuda
