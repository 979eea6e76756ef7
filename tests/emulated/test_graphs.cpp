// Stream capture: nothing runs, dependencies are kept, and launches use only those.
#include "tests/emulated/test_support.hpp"

namespace {

/// Writes its place in the order of execution.
void stamp(cudaStream_t stream, float* clock, float* where) {
  emulated_launch(stream, [=] { *where = (*clock)++; });
}

void begin(cudaStream_t stream) { REQUIRE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); }

cudaError_t end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream, &graph);
  CHECK((graph == nullptr) == (result != cudaSuccess));
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  return result;
}

}  // namespace

TEST_CASE("captured branches run at launches only, in the order that is least like the capture's; joins hold") {
  DeviceFloats times(std::vector<float>(5, 0.0f));
  TestStream main_stream, side;
  TestEvent fork_event, join_event;
  float* t = times.get();
  begin(main_stream);
  stamp(main_stream, t, t + 1);
  REQUIRE_CUDA(cudaEventRecord(fork_event, main_stream));
  REQUIRE_CUDA(cudaStreamWaitEvent(side, fork_event, 0));
  stamp(main_stream, t, t + 2);
  stamp(side, t, t + 3);
  REQUIRE_CUDA(cudaEventRecord(join_event, side));
  REQUIRE_CUDA(cudaStreamWaitEvent(main_stream, join_event, 0));
  stamp(main_stream, t, t + 4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE_CUDA(cudaStreamEndCapture(main_stream, &graph));
  REQUIRE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  REQUIRE_CUDA(cudaGraphDestroy(graph));
  REQUIRE_CUDA(cudaDeviceSynchronize());
  for (const float first : {0.0f, 4.0f}) {
    REQUIRE_CUDA(cudaGraphLaunch(exec, main_stream));
    synchronize(main_stream);
    // Between fork and join the branch that was captured later runs first.
    CHECK(times.values() == std::vector<float>{first + 4, first, first + 2, first + 1, first + 3});
  }
  REQUIRE_CUDA(cudaGraphExecDestroy(exec));
}

TEST_CASE("a stream that is not joined back is an error") {
  DeviceFloats memory(1);
  TestStream main_stream, side;
  TestEvent event;
  begin(main_stream);
  REQUIRE_CUDA(cudaEventRecord(event, main_stream));
  REQUIRE_CUDA(cudaStreamWaitEvent(side, event, 0));
  REQUIRE_CUDA(cudaMemsetAsync(memory.get(), 0, 4, side));
  CHECK(end(main_stream) == cudaErrorStreamCaptureUnjoined);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  REQUIRE_CUDA(cudaStreamIsCapturing(side, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
}

TEST_CASE("what CUDA forbids during a capture invalidates it") {
  TestStream stream, other;
  TestEvent event, outside;
  float pageable = 0;
  DeviceFloats memory(1);
  void* pointer = nullptr;
  REQUIRE_CUDA(cudaEventRecord(outside, other));
  const std::vector<std::function<cudaError_t()>> forbidden{
      [&] { return cudaMalloc(&pointer, 4); },
      [&] { return cudaFree(memory.get()); },
      [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaStreamQuery(stream); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaMemcpy(memory.get(), &pageable, 4, cudaMemcpyHostToDevice); },
      [&] { return cudaMemcpyAsync(memory.get(), &pageable, 4, cudaMemcpyHostToDevice, stream); },
      [&] { return cudaEventQuery(event); },
      [&] { return cudaStreamWaitEvent(stream, outside, 0); },
  };
  for (const auto& call : forbidden) {
    begin(stream);
    REQUIRE_CUDA(cudaEventRecord(event, stream));
    CHECK(call() != cudaSuccess);
    CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  }
  begin(stream);
  CHECK(end(other) == cudaErrorIllegalState);
  CHECK(end(stream) == cudaSuccess);
}
