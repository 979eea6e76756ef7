// MRMF_CUBLAS: errors of cuBLAS and cuBLASLt, which share one status type.
#pragma once

#include <cublasLt.h>

#include "kernels/cuda/check.hpp"

/// Runs a call of cuBLASLt; FaultError when it fails.
#define MRMF_CUBLAS(call)                                                                                     \
  do {                                                                                                        \
    const cublasStatus_t mrmf_status = (call);                                                                \
    if (mrmf_status != CUBLAS_STATUS_SUCCESS)                                                                 \
      ::mrmf::cuda::call_failed({"cuBLAS", #call, __FILE__, __LINE__}, cublasLtGetStatusString(mrmf_status)); \
  } while (false)
