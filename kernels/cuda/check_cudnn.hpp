// MRMF_CUDNN: errors of cuDNN with the library's own explanation.
#pragma once

#include <cudnn.h>

#include <string>

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {

/// The meaning of a status and cuDNN's last explanation of this thread.
std::string cudnn_text(cudnnStatus_t status);

}  // namespace mrmf::cuda

/// Runs a call of cuDNN; FaultError when it fails.
#define MRMF_CUDNN(call)                                                                                              \
  do {                                                                                                                \
    const cudnnStatus_t mrmf_status = (call);                                                                         \
    if (mrmf_status != CUDNN_STATUS_SUCCESS)                                                                          \
      ::mrmf::cuda::call_failed({"cuDNN", #call, __FILE__, __LINE__}, ::mrmf::cuda::cudnn_text(mrmf_status).c_str()); \
  } while (false)
