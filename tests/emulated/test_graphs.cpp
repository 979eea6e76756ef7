// Stream capture: nothing runs, dependencies are kept, and launches use only those.
#include "tests/emulated/test_support.hpp"

namespace {

/// Writes its place in the order of execution.
void stamp(cudaStream_t stream, float* clock, float* where) {
  mrmf::cuda::emulated_launch(stream, [=] { *where = (*clock)++; });
}

struct Captured {
  explicit Captured(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    REQUIRE_CUDA(cudaStreamEndCapture(stream, &graph));
    REQUIRE_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    REQUIRE_CUDA(cudaGraphDestroy(graph));
  }
  ~Captured() { cudaGraphExecDestroy(exec); }
  cudaGraphExec_t exec = nullptr;
};

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

TEST_CASE("a captured stream runs nothing until the graph is launched, and then every time") {
  DeviceFloats memory(std::vector<float>{0.0f});
  TestStream stream;
  float* value = memory.get();
  begin(stream);
  mrmf::cuda::emulated_launch(stream, [value] { *value += 1.0f; });
  mrmf::cuda::emulated_launch(stream, [value] { *value *= 3.0f; });
  const Captured graph(stream);
  stream.synchronize();
  CHECK(memory.values()[0] == 0.0f);
  for (const float expected : {3.0f, 12.0f}) {
    REQUIRE_CUDA(cudaGraphLaunch(graph.exec, stream));
    stream.synchronize();
    CHECK(memory.values()[0] == expected);
  }
}

TEST_CASE("branches run in the order that is least like the capture's, joins hold") {
  DeviceFloats times(std::vector<float>(5, -1.0f));
  TestStream main_stream, side;
  TestEvent fork_event, join_event;
  float* t = times.get();
  REQUIRE_CUDA(cudaMemset(t, 0, 4));
  begin(main_stream);
  stamp(main_stream, t, t + 1);
  REQUIRE_CUDA(cudaEventRecord(fork_event, main_stream));
  REQUIRE_CUDA(cudaStreamWaitEvent(side, fork_event, 0));
  stamp(main_stream, t, t + 2);
  stamp(side, t, t + 3);
  REQUIRE_CUDA(cudaEventRecord(join_event, side));
  REQUIRE_CUDA(cudaStreamWaitEvent(main_stream, join_event, 0));
  stamp(main_stream, t, t + 4);
  const Captured graph(main_stream);
  REQUIRE_CUDA(cudaDeviceSynchronize());
  REQUIRE_CUDA(cudaGraphLaunch(graph.exec, main_stream));
  main_stream.synchronize();
  // Between fork and join the branch that was captured later runs first.
  CHECK(times.values() == std::vector<float>{4.0f, 0.0f, 2.0f, 1.0f, 3.0f});
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
