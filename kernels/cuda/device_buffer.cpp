#include "kernels/cuda/runtime.hpp"

#include <fmt/format.h>

#include "kernels/check.hpp"

namespace mrmf::cuda {

void* device_memory(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it would come up again at the next check
    std::size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    throw FaultError(fmt::format(
        "out of device memory: {:.2f} GB are wanted and {:.2f} of {:.2f} GB are free; use a "
        "smaller training.batch, more ranks, or run.precision = \"bf16\"",
        static_cast<double>(bytes) * 1e-9, static_cast<double>(available) * 1e-9, static_cast<double>(total) * 1e-9));
  }
  MRMF_CUDA(status);
  return data;
}

}  // namespace mrmf::cuda
