// MRMF_NCCL: errors of NCCL. A non-blocking communicator's ncclInProgress is not an error.
#pragma once

#include <nccl.h>

#include <string>

#include "kernels/cuda/check.hpp"

/// Runs a call of NCCL; FaultError when it fails, with NCCL's last explanation.
#define MRMF_NCCL(call)                                                                               \
  do {                                                                                                \
    const ncclResult_t mrmf_status = (call);                                                          \
    if (mrmf_status != ncclSuccess && mrmf_status != ncclInProgress)                                  \
      ::mrmf::cuda::call_failed(                                                                      \
          {"NCCL", #call, __FILE__, __LINE__},                                                        \
          (std::string(ncclGetErrorString(mrmf_status)) + ": " + ncclGetLastError(nullptr)).c_str()); \
  } while (false)
