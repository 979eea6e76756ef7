// Turns status codes of NVIDIA's libraries into errors. One header per library (check_cudnn.hpp, check_cublas.hpp,
// check_nccl.hpp), so that a file sees only the libraries that it calls; this one is CUDA's runtime.
#pragma once

#include <cuda_runtime_api.h>

namespace mrmf::cuda {

/// Where and what a failed call was.
struct FailedCall {
  const char* library;     ///< "CUDA", "cuDNN", "cuBLAS", "NCCL"
  const char* expression;  ///< as it stands in the source
  const char* file;
  int line;
};

/// Throws FaultError("<library>: <text> in <expression> (<file>:<line>)"), on one line whatever the text holds.
[[noreturn]] void call_failed(const FailedCall& call, const char* text);

}  // namespace mrmf::cuda

/// Runs a call of the CUDA runtime; FaultError when it fails.
#define MRMF_CUDA(call)                                                                                \
  do {                                                                                                 \
    const cudaError_t mrmf_status = (call);                                                            \
    if (mrmf_status != cudaSuccess)                                                                    \
      ::mrmf::cuda::call_failed({"CUDA", #call, __FILE__, __LINE__}, cudaGetErrorString(mrmf_status)); \
  } while (false)
