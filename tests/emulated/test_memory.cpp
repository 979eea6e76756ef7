// Device memory: what host code may not do with it, and how mistakes show.
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

TEST_CASE("new device memory holds NaN, and so does memory that is used again") {
  for (int round = 0; round < 2; ++round) {
    DeviceFloats memory(100);
    for (float value : memory.values()) CHECK(std::isnan(value));
    TestStream stream;
    REQUIRE_CUDA(cudaMemsetAsync(memory.get(), 0, 400, stream));
    stream.synchronize();
    CHECK(memory.values()[99] == 0.0f);
  }
}

TEST_CASE("a write behind an allocation breaks the device") {
  const int status = status_of(in_child([] {
    float* memory = nullptr;
    cudaStream_t stream = nullptr;
    if (cudaMalloc(reinterpret_cast<void**>(&memory), 40) || cudaStreamCreate(&stream)) return 1;
    mrmf::cuda::emulated_launch(stream, [memory] { memory[10] = 1.0f; });
    if (cudaGetLastError() != cudaSuccess) return 2;  // only execution shows it
    if (cudaStreamSynchronize(stream) != cudaErrorIllegalAddress) return 3;
    void* more = nullptr;
    return cudaMalloc(&more, 4) == cudaErrorIllegalAddress ? 0 : 4;  // and it stays
  }));
  CHECK(status == 0);
}

TEST_CASE("memory is limited, counted and checked when freed") {
  // A device of its own, so that no earlier allocation counts.
  REQUIRE_CUDA(cudaSetDevice(3));
  const Environment limit("MRMF_EMULATED_MEMORY", "1000000");
  size_t free = 0, total = 0;
  REQUIRE_CUDA(cudaMemGetInfo(&free, &total));
  CHECK(total == 1000000);
  CHECK(free == total);
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE_CUDA(cudaMalloc(&first, 600000));
  CHECK(cudaMalloc(&second, 600000) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE_CUDA(cudaMemGetInfo(&free, &total));
  CHECK(free == 400000);
  CHECK(cudaFree(static_cast<char*>(first) + 512) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaFree(first));
  CHECK(cudaFree(first) == cudaErrorInvalidValue);
  REQUIRE_CUDA(cudaMalloc(&second, 600000));
  REQUIRE_CUDA(cudaFree(second));
  REQUIRE_CUDA(cudaSetDevice(0));
}

TEST_CASE("copies are checked against the allocations and their direction") {
  DeviceFloats memory(10);
  std::vector<float> host(20);
  CHECK(cudaMemcpy(memory.get(), host.data(), 44, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), memory.get() + 5, 24, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(memory.get(), host.data(), 40, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidValue)).find("direction") != std::string::npos);
  CHECK(cudaMemcpy(memory.get(), host.data(), 40, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemset(memory.get(), 0, 41) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("machines without a device, or with an old driver, say so") {
  int value = -1;
  {
    const Environment none("MRMF_EMULATED_GPUS", "0");
    CHECK(cudaGetDeviceCount(&value) == cudaErrorNoDevice);
    CHECK(value == 0);
  }
  {
    const Environment old("MRMF_EMULATED_DRIVER", "12000");
    CHECK(cudaGetDeviceCount(&value) == cudaErrorInsufficientDriver);
    CHECK(cudaDriverGetVersion(&value) == cudaSuccess);
    CHECK(value == 12000);
  }
  CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
  CHECK(cudaGetDeviceCount(&value) == cudaSuccess);
  CHECK(value == 4);
  CHECK(cudaSetDevice(4) == cudaErrorInvalidDevice);
  char first[16], second[16];
  REQUIRE_CUDA(cudaDeviceGetPCIBusId(first, sizeof first, 0));
  REQUIRE_CUDA(cudaDeviceGetPCIBusId(second, sizeof second, 1));
  CHECK(std::string(first) != second);
}
