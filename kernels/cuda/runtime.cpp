#include "kernels/cuda/waiter.hpp"

#include <chrono>
#include <thread>

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {

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
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  constexpr int polls_between_checks = 1000;
  for (int i = 1;; ++i) {
    const cudaError_t status = query();
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) MRMF_CUDA(status);
    cudaGetLastError();  // "not ready" would come up again at the next launch's check
    if (i % polls_between_checks != 0) continue;
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    check_(waited);
    // A step takes under a millisecond, so waiting for it is busy; what lasts longer leaves the core to others.
    if (waited > 0.01) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace mrmf::cuda
