#include "kernels/cuda/recorder.hpp"

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

Record record(cudaStream_t stream, const std::function<void()>& calls) {
  // Thread-local: other threads (NCCL's, MPI's) may call CUDA meanwhile.
  MRMF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    calls();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);  // leaves the stream usable for the message's sake
    if (captured != nullptr) cudaGraphDestroy(captured);
    throw;
  }
  MRMF_CUDA(cudaStreamEndCapture(stream, &captured));
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  cudaGraphExec_t executable = nullptr;
  MRMF_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  return Record(executable);
}

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
    Record made = record(stream_, calls);
    records_[key] = std::move(made);
  }
  MRMF_CUDA(cudaGraphLaunch(records_[key].get(), stream_));
}

}  // namespace mrmf::cuda
