// Device memory: what programs may not do with it, and how mistakes show.
#include <cmath>
#include <csignal>

#include "tests/emulated/test_support.hpp"

TEST_CASE("host code that touches device memory crashes") {
  DeviceFloats memory(4);
  volatile float* pointer = memory.get();
  const int status = status_of(in_child([&] {
    std::signal(SIGSEGV, SIG_DFL);  // doctest's handler would report it as a failure
    return pointer[0] > 0 ? 1 : 2;
  }));
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("device memory holds NaN when it is new, when it is used again and when it is freed") {
  DeviceFloats seen(std::vector<float>{0.0f});
  TestStream stream;
  float *target = seen.get(), *freed = nullptr;
  for (int round = 0; round < 2; ++round) {
    DeviceFloats memory(100);
    freed = memory.get();
    for (float value : memory.values()) CHECK(std::isnan(value));
    REQUIRE_CUDA(cudaMemsetAsync(memory.get(), 0, 400, stream));
    synchronize(stream);
    CHECK(memory.values()[99] == 0.0f);
  }
  emulated_launch(stream, [=] { *target = *freed; });
  synchronize(stream);
  CHECK(std::isnan(seen.values()[0]));
}

TEST_CASE("a write behind an allocation breaks the device") {
  const int status = status_of(in_child([] {
    float* memory = nullptr;
    cudaStream_t stream = nullptr;
    if (cudaMalloc(reinterpret_cast<void**>(&memory), 40) || cudaStreamCreate(&stream)) return 1;
    emulated_launch(stream, [memory] { memory[10] = 1.0f; });
    if (cudaGetLastError() != cudaSuccess) return 2;  // only execution shows it
    if (cudaStreamSynchronize(stream) != cudaErrorIllegalAddress) return 3;
    void* more = nullptr;
    return cudaMalloc(&more, 4) == cudaErrorIllegalAddress ? 0 : 4;  // and it stays
  }));
  CHECK(status == 0);
}

TEST_CASE("memory is limited, and what is not allocated is neither freed nor written") {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, std::size_t{3} << 30) == cudaErrorMemoryAllocation);  // a device has 2 GiB
  REQUIRE_CUDA(cudaMalloc(&memory, 1000));
  CHECK(cudaFree(static_cast<char*>(memory) + 512) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaFree(memory));
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaMemset(memory, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaSetDevice(4) == cudaErrorInvalidDevice);  // there are 0 to 3
  cudaGetLastError();
}

TEST_CASE("copies are checked against the allocations and their direction") {
  DeviceFloats memory(10);
  std::vector<float> host(20);
  CHECK(cudaMemcpy(memory.get(), host.data(), 44, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), memory.get() + 5, 24, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(memory.get(), host.data(), 40, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidValue)).find("direction") != std::string::npos);
  CHECK(cudaMemset(memory.get(), 0, 41) == cudaErrorInvalidValue);
  cudaGetLastError();
}
