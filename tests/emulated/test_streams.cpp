// Streams run as late as possible, so that missing waits and buffers used again too early give wrong results.
#include <cmath>
#include <stdexcept>

#include "tests/emulated/test_support.hpp"

namespace {

struct Pinned {
  Pinned() { REQUIRE_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data), 4 * sizeof(float))); }
  ~Pinned() { cudaFreeHost(data); }
  float* data = nullptr;
};

}  // namespace

TEST_CASE("a pinned buffer is read when the copy runs, a pageable one at the call") {
  DeviceFloats pinned_copy(1), pageable_copy(1);
  TestStream stream;
  Pinned pinned;
  float pageable = 1.0f;
  pinned.data[0] = 1.0f;
  REQUIRE_CUDA(cudaMemcpyAsync(pinned_copy.get(), pinned.data, 4, cudaMemcpyHostToDevice, stream));
  REQUIRE_CUDA(cudaMemcpyAsync(pageable_copy.get(), &pageable, 4, cudaMemcpyHostToDevice, stream));
  pinned.data[0] = pageable = 2.0f;  // too early for the first
  stream.synchronize();
  CHECK(pinned_copy.values()[0] == 2.0f);
  CHECK(pageable_copy.values()[0] == 1.0f);
}

TEST_CASE("a copy to pinned memory has not happened before it is waited for") {
  DeviceFloats memory(std::vector<float>{7.0f});
  TestStream stream;
  Pinned pinned;
  pinned.data[0] = 1.0f;
  REQUIRE_CUDA(cudaMemcpyAsync(pinned.data, memory.get(), 4, cudaMemcpyDeviceToHost, stream));
  CHECK(pinned.data[0] == 1.0f);
  stream.synchronize();
  CHECK(pinned.data[0] == 7.0f);
}

TEST_CASE("streams without a wait between them do not see each other's work") {
  for (const bool waits : {false, true}) {
    DeviceFloats from(std::vector<float>{1.0f}), to(std::vector<float>{0.0f});
    TestStream producer, consumer;
    TestEvent event;
    float* source = from.get();
    float* target = to.get();
    mrmf::cuda::emulated_launch(producer, [source] { *source = 5.0f; });
    REQUIRE_CUDA(cudaEventRecord(event, producer));
    if (waits) REQUIRE_CUDA(cudaStreamWaitEvent(consumer, event, 0));
    mrmf::cuda::emulated_launch(consumer, [=] { *target = *source; });
    consumer.synchronize();
    CHECK(to.values()[0] == (waits ? 5.0f : 1.0f));
  }
}

TEST_CASE("a wait means the recording at its call, not a later one") {
  DeviceFloats memory(std::vector<float>{0.0f}), seen(std::vector<float>{0.0f});
  TestStream producer, consumer;
  TestEvent event;
  float* value = memory.get();
  float* target = seen.get();
  mrmf::cuda::emulated_launch(producer, [value] { *value = 1.0f; });
  REQUIRE_CUDA(cudaEventRecord(event, producer));
  REQUIRE_CUDA(cudaStreamWaitEvent(consumer, event, 0));
  mrmf::cuda::emulated_launch(producer, [value] { *value = 2.0f; });
  REQUIRE_CUDA(cudaEventRecord(event, producer));
  mrmf::cuda::emulated_launch(consumer, [=] { *target = *value; });
  consumer.synchronize();
  CHECK(seen.values()[0] == 1.0f);
}

TEST_CASE("events tell the time between two points") {
  TestStream stream;
  TestEvent start, end;
  float milliseconds = -1.0f;
  REQUIRE_CUDA(cudaEventRecord(start, stream));
  mrmf::cuda::emulated_launch(stream, [] { usleep(3000); });
  REQUIRE_CUDA(cudaEventRecord(end, stream));
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  cudaGetLastError();
  CHECK(cudaEventQuery(end) == cudaSuccess);
  REQUIRE_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 3.0f);
}

TEST_CASE("the default stream is refused, and cudaMemset runs late") {
  DeviceFloats memory(std::vector<float>{3.0f});
  CHECK(cudaMemsetAsync(memory.get(), 0, 4, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaErrorInvalidValue);
  mrmf::cuda::emulated_launch(nullptr, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);

  DeviceFloats seen(2);
  TestStream unordered;
  cudaStream_t ordered = nullptr;
  REQUIRE_CUDA(cudaStreamCreate(&ordered));
  REQUIRE_CUDA(cudaMemset(memory.get(), 0, 4));
  const float* value = memory.get();
  float* target = seen.get();
  mrmf::cuda::emulated_launch(unordered, [=] { target[0] = *value; });
  mrmf::cuda::emulated_launch(ordered, [=] { target[1] = *value; });
  unordered.synchronize();
  REQUIRE_CUDA(cudaStreamSynchronize(ordered));
  CHECK(seen.values()[0] == 3.0f);
  CHECK(seen.values()[1] == 0.0f);
  REQUIRE_CUDA(cudaStreamDestroy(ordered));
  CHECK(cudaStreamSynchronize(ordered) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("freeing memory waits for the device") {
  TestStream stream;
  Pinned pinned;
  pinned.data[0] = 0.0f;
  {
    DeviceFloats memory(std::vector<float>{9.0f});
    REQUIRE_CUDA(cudaMemcpyAsync(pinned.data, memory.get(), 4, cudaMemcpyDeviceToHost, stream));
  }
  CHECK(pinned.data[0] == 9.0f);
}

TEST_CASE("an exception in a kernel breaks the device until it is reset") {
  TestStream stream;
  mrmf::cuda::emulated_launch(stream, [] { throw std::runtime_error("index out of range"); });
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("index out of range") != std::string::npos);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  stream.synchronize();
  cudaGetLastError();
}
