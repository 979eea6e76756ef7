// Updates of parameters in float32 arenas; their numbers come from the step block.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/step_block.hpp"

#include <cuda_runtime_api.h>

namespace mrmf::cuda {

/// Spans of equal length. `group`: of step->adam.
void sgd(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan dw, Span velocity);
void adam(cudaStream_t stream, const StepBlock* step, std::size_t group, Span w, ConstSpan dw, Span m, Span v);

}  // namespace mrmf::cuda
