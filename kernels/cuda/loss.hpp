// The loss of a batch and its gradient, and the history of losses.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/step_block.hpp"
#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

struct LossWork {
  LossKind kind = LossKind::mse;
  Index rows = 0, outputs = 0;
  const StepBlock* step = nullptr;  ///< the gradient's weight
  void* scratch = nullptr;          ///< loss_bytes() for at least as many rows
};
std::size_t loss_bytes(const Storage& storage, Index rows, Index outputs);

/// sum[0] = sum over rows of the mean over outputs; dy (stored, pads zero), unless null, its gradient times the weight.
/// y is stored, target float32 and unpadded.
void loss(const Work& work, const LossWork& loss, const void* y, const float* target, void* dy, float* sum);

/// history[step->index] = value[0]
void keep(cudaStream_t stream, const StepBlock* step, const float* value, float* history);

}  // namespace mrmf::cuda
