// Streams run as late as possible, so that missing waits and buffers used again too early give wrong results.
#include <stdexcept>

#include "tests/emulated/test_support.hpp"

TEST_CASE("pinned memory is read and written when the copy runs, pageable memory is read at the call") {
  DeviceFloats from_pinned(1), from_pageable(1);
  TestStream stream;
  PinnedFloat source, target;
  float pageable = 1.0f;
  *source = *target = 1.0f;
  REQUIRE_CUDA(cudaMemcpyAsync(from_pinned.get(), source, 4, cudaMemcpyHostToDevice, stream));
  REQUIRE_CUDA(cudaMemcpyAsync(from_pageable.get(), &pageable, 4, cudaMemcpyHostToDevice, stream));
  REQUIRE_CUDA(cudaMemcpyAsync(target, from_pinned.get(), 4, cudaMemcpyDeviceToHost, stream));
  *source = pageable = 2.0f;  // too early for the first
  CHECK(*target == 1.0f);     // nobody has waited for it
  synchronize(stream);
  CHECK(*target == 2.0f);
  CHECK(from_pageable.values()[0] == 1.0f);
}

TEST_CASE("a stream sees of another's work what comes before the recording that it waits for, and no more") {
  for (const bool waits : {false, true}) {
    DeviceFloats from(std::vector<float>{1.0f}), to(std::vector<float>{0.0f});
    TestStream producer, consumer;
    TestEvent event;
    float *source = from.get(), *target = to.get();
    emulated_launch(producer, [source] { *source = 5.0f; });
    REQUIRE_CUDA(cudaEventRecord(event, producer));
    if (waits) REQUIRE_CUDA(cudaStreamWaitEvent(consumer, event, 0));
    emulated_launch(producer, [source] { *source = 9.0f; });
    REQUIRE_CUDA(cudaEventRecord(event, producer));  // too late to be meant by the wait
    emulated_launch(consumer, [=] { *target = *source; });
    synchronize(consumer);
    CHECK(to.values()[0] == (waits ? 5.0f : 1.0f));
  }
}

TEST_CASE("the time between events is refused until they have happened") {
  TestStream stream;
  TestEvent start, end;
  float milliseconds = -1.0f;
  REQUIRE_CUDA(cudaEventRecord(start, stream));
  REQUIRE_CUDA(cudaEventRecord(end, stream));
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  cudaGetLastError();
  REQUIRE_CUDA(cudaEventSynchronize(end));
  REQUIRE_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
}

TEST_CASE("the default stream is refused, and so is a stream that is gone") {
  DeviceFloats memory(1);
  CHECK(cudaMemsetAsync(memory.get(), 0, 4, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaErrorInvalidValue);
  emulated_launch(nullptr, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  cudaStream_t gone = nullptr;
  REQUIRE_CUDA(cudaStreamCreate(&gone));
  REQUIRE_CUDA(cudaStreamDestroy(gone));
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("cudaMemset runs late: before the work of blocking streams only") {
  DeviceFloats memory(std::vector<float>{3.0f}), seen(2);
  TestStream unordered;
  Owned<cudaStream_t, cudaStreamCreate, cudaStreamDestroy> ordered;
  const float* value = memory.get();
  float* target = seen.get();
  REQUIRE_CUDA(cudaMemset(memory.get(), 0, 4));
  emulated_launch(unordered, [=] { target[0] = *value; });
  emulated_launch(ordered, [=] { target[1] = *value; });
  synchronize(unordered);
  synchronize(ordered);
  CHECK(seen.values() == std::vector<float>{3.0f, 0.0f});
}

TEST_CASE("freeing memory waits for the device") {
  TestStream stream;
  PinnedFloat target;
  *target = 0.0f;
  {
    DeviceFloats memory(std::vector<float>{9.0f});
    REQUIRE_CUDA(cudaMemcpyAsync(target, memory.get(), 4, cudaMemcpyDeviceToHost, stream));
  }
  CHECK(*target == 9.0f);
}

TEST_CASE("an exception in a kernel breaks the device until it is reset") {
  TestStream stream;
  emulated_launch(stream, [] { throw std::runtime_error("index out of range"); });
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("index out of range") != std::string::npos);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  synchronize(stream);
  cudaGetLastError();
}
