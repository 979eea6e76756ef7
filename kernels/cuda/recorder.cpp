#include "kernels/cuda/recorder.hpp"

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

void Recorder::run(std::uint64_t key, const std::function<void()>& calls) {
  if (!enabled_) {
    calls();
    return;
  }
  if (!records_.contains(key)) {
    records_[key] = nullptr;
    calls();  // may forget all records, this one with them
    return;
  }
  if (!records_[key]) {
    Graph graph = record(calls);
    records_[key] = std::move(graph);
  }
  MRMF_CUDA(cudaGraphLaunch(records_[key].get(), stream_));
}

Recorder::Graph Recorder::record(const std::function<void()>& calls) {
  // Thread-local: other threads (NCCL's, MPI's) may call CUDA meanwhile.
  MRMF_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    calls();
  } catch (...) {
    cudaStreamEndCapture(stream_, &captured);  // leaves the stream usable for the message's sake
    if (captured != nullptr) cudaGraphDestroy(captured);
    throw;
  }
  MRMF_CUDA(cudaStreamEndCapture(stream_, &captured));
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  cudaGraphExec_t executable = nullptr;
  MRMF_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  return Graph(executable);
}

}  // namespace mrmf::cuda
