// Waiting for the device without ever being stuck in it: a collective whose peer has died does not end by itself.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

namespace mrmf::cuda {

class Waiter {
 public:
  /// Called now and then while something is waited for, with the seconds waited so far; it may throw.
  void watch(std::function<void(double)> check) { check_ = std::move(check); }
  void stop_watching() { check_ = nullptr; }

  /// Returns when all that `stream` holds, or held when `event` was recorded, is done. FaultError when it failed.
  void wait(cudaStream_t stream) const;
  void wait(cudaEvent_t event) const;

 private:
  void poll(const std::function<cudaError_t()>& query) const;
  std::function<void(double)> check_;
};

}  // namespace mrmf::cuda
