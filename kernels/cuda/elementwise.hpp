// Activations and dropout of stored activations; fill and swap of float memory.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/step_block.hpp"
#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

/// Over `vectors` vectors of 16 bytes, pads included: every activation keeps 0 at 0. y may be x, dx may be dy.
void activate(const Work& work, ActivationKind kind, float slope, Index vectors, const void* x, void* y);
void activate_backward(const Work& work, ActivationKind kind, float slope, Index vectors, const void* y, const void* dy,
                       void* dx);

/// A dropout layer: number and rate, and where the kernel finds the step's numbers and the samples' ids.
struct DropoutWork {
  std::uint64_t layer = 0;
  float rate = 0;
  const StepBlock* step = nullptr;
  const std::int64_t* ids = nullptr;
};
/// y = x * mask / (1 - rate) while training; y may be x. The mask counts logical features, whatever the padding.
void dropout(const Work& work, const DropoutWork& dropout, const Shape& shape, const void* x, void* y);

/// y = x; nothing where they are the same memory.
void copy(const Work& work, Index vectors, const void* x, void* y);

void fill(cudaStream_t stream, Span x, float value);
void swap(cudaStream_t stream, Span a, Span b);

}  // namespace mrmf::cuda
