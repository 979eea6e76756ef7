// What every function of this folder that enqueues work takes first.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/storage.hpp"

namespace mrmf::cuda {

/// The stream that the work is put in, and how the activations it touches are stored.
struct Work {
  cudaStream_t stream = nullptr;
  Storage storage{};
};

}  // namespace mrmf::cuda
