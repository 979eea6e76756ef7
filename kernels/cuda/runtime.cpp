#include "kernels/cuda/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "kernels/errors.hpp"

namespace mrmf::cuda {

void call_failed(const FailedCall& call, const char* text) {
  const std::string explained = text;
  cudaGetLastError();  // it is the exception's from here on: else the next launch would be blamed for it
  std::string message = std::string(call.library) + ": " + explained + " in " + call.expression + " (" + call.file +
                        ":" + std::to_string(call.line) + ")";
  std::replace(message.begin(), message.end(), '\n', ' ');
  throw FaultError(message);
}

void* device_memory(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which the next check would report
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

void Waiter::wait(cudaStream_t stream) const {
  if (!check_) {
    MRMF_CUDA(cudaStreamSynchronize(stream));
    return;
  }
  poll([stream] { return cudaStreamQuery(stream); });
}

void Waiter::wait(cudaEvent_t event) const {
  if (!check_) {
    MRMF_CUDA(cudaEventSynchronize(event));
    return;
  }
  poll([event] { return cudaEventQuery(event); });
}

void Waiter::poll(const std::function<cudaError_t()>& query) const {
  WaitTimer timer(limit_);
  constexpr int polls_between_checks = 1000;
  for (int i = 1;; ++i) {
    const cudaError_t status = query();
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) MRMF_CUDA(status);
    cudaGetLastError();  // clears "not ready", which the next launch's check would report
    if (i % polls_between_checks != 0) continue;
    timer.update();
    check_(timer);
    // A step takes under a millisecond, so poll without a pause at first. Longer waits leave the core to others.
    if (timer.counted() > 0.01) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace mrmf::cuda
