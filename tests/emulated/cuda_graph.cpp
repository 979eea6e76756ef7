// Stream capture and graphs.
#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"

using namespace mrmf::emulated;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api([&](Machine& machine, Machine::Lock&) {
    CUstream_st& queue = machine.stream(stream);
    require(!queue.capture, cudaErrorIllegalState, "the stream is being captured already");
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->thread = std::this_thread::get_id();
    capture->mode = mode;
    machine.captures.push_back(capture);
    queue.capture = capture;
    queue.tail.clear();
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api([&](Machine& machine, Machine::Lock&) {
    *graph = nullptr;
    auto nodes = end_capture(machine, machine.stream(stream));
    *graph = new CUgraph_st{std::make_shared<const std::vector<Node>>(std::move(nodes))};
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api([&](Machine& machine, Machine::Lock&) {
    const auto& capture = machine.stream(stream).capture;
    *status = !capture           ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api([&](Machine&, Machine::Lock&) { std::swap(*mode, thread_capture_mode()); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api([&](Machine&, Machine::Lock&) {
    require(nodes == nullptr, cudaErrorNotSupported, "only the number of a graph's nodes is emulated");
    *count = graph->nodes->size();
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return api([&](Machine&, Machine::Lock&) {
    require(graph != nullptr, cudaErrorInvalidValue, "no graph");
    require(flags == 0, cudaErrorNotSupported, "flags of cudaGraphInstantiate");
    *exec = new CUgraphExec_st{graph->nodes, nullptr};
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(exec != nullptr, cudaErrorInvalidValue, "no graph");
    forbid_when_capturing(machine.stream(stream), "cudaGraphUpload");
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(exec != nullptr, cudaErrorInvalidValue, "no graph");
    CUstream_st& queue = machine.stream(stream);
    forbid_when_capturing(queue, "cudaGraphLaunch");
    if (exec->last) machine.wait(queue, exec->last);
    auto run = std::make_shared<GraphRun>(exec->nodes);
    machine.enqueue(stream, [run] { return run->advance(); });
    exec->last = machine.record(queue);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&](Machine&, Machine::Lock&) {
    require(graph != nullptr, cudaErrorInvalidValue, "no graph");
    delete graph;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api([&](Machine&, Machine::Lock&) {
    require(exec != nullptr, cudaErrorInvalidValue, "no graph");
    delete exec;
  });
}

}  // extern "C"
