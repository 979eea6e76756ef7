#pragma once
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/cuda/launch_emulated.hpp"

#define REQUIRE_CUDA(call) REQUIRE_MESSAGE((call) == cudaSuccess, cudaGetErrorString(cudaPeekAtLastError()))

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

/// A non-blocking stream.
class TestStream {
 public:
  TestStream() { REQUIRE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { REQUIRE_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  TestEvent() { REQUIRE_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An environment variable for the length of a scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (had_)
      setenv(name_, before_.c_str(), 1);
    else
      unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_;
};

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

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  std::vector<float> result(count);
  for (float& value : result) value = values(generator);
  return result;
}
