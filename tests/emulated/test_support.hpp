#pragma once
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/launch_emulated.hpp"

#define REQUIRE_CUDA(call) REQUIRE_MESSAGE((call) == cudaSuccess, cudaGetErrorString(cudaPeekAtLastError()))

using mrmf::cuda::emulated_launch;

/// A device array of floats; copies go through cudaMemcpy, which waits for blocking streams only.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count) : count_(count) {
    REQUIRE_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float)));
  }
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    REQUIRE_CUDA(cudaMemcpy(data_, values.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* get() const { return data_; }
  std::vector<float> values() const {
    std::vector<float> host(count_);
    REQUIRE_CUDA(cudaMemcpy(host.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  std::size_t count_;
  float* data_ = nullptr;
};

/// What CUDA makes, for the length of a scope.
template <class Handle, auto create, auto destroy>
class Owned {
 public:
  Owned() { REQUIRE_CUDA(create(&handle_)); }
  ~Owned() { destroy(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
inline cudaError_t create_non_blocking(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
}
inline cudaError_t create_event(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
inline cudaError_t allocate_pinned(float** value) {
  return cudaMallocHost(reinterpret_cast<void**>(value), sizeof(float));
}
using TestStream = Owned<cudaStream_t, create_non_blocking, cudaStreamDestroy>;
using TestEvent = Owned<cudaEvent_t, create_event, cudaEventDestroy>;
using PinnedFloat = Owned<float*, allocate_pinned, cudaFreeHost>;

/// A setting of the emulator (settings.hpp) for the length of a scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

inline void synchronize(cudaStream_t stream) { REQUIRE_CUDA(cudaStreamSynchronize(stream)); }

/// Runs `body` in a child process; its return value is the exit code.
inline pid_t in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}
inline int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}
