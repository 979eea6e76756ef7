#include "kernels/cuda/step.hpp"

#include <algorithm>

#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

StepFeed::StepFeed(const Waiter& waiter) : waiter_(waiter), block_(sizeof(StepBlock)) {
  for (Slot& slot : slots_) slot.block = PinnedBuffer(sizeof(StepBlock));
}

bool StepFeed::reserve(Index rows, cudaStream_t stream) {
  const auto ids = static_cast<std::size_t>(rows);
  if (ids <= capacity_) return false;
  waiter_.wait(stream);  // queued work may still read the old memory
  capacity_ = ids;
  ids_ = DeviceBuffer(capacity_ * sizeof(std::int64_t));
  for (Slot& slot : slots_) slot.ids = PinnedBuffer(capacity_ * sizeof(std::int64_t));
  return true;
}

bool StepFeed::send(const Step& step, cudaStream_t stream) {
  const bool moved = reserve(std::ssize(step.ids), stream);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (slot.used) waiter_.wait(slot.copied.get());
  *slot.block.get<StepBlock>() = StepBlock::of(step);
  MRMF_CUDA(cudaMemcpyAsync(block_.get(), slot.block.get(), sizeof(StepBlock), cudaMemcpyHostToDevice, stream));
  if (!step.ids.empty()) {
    std::ranges::copy(step.ids, slot.ids.get<std::int64_t>());
    MRMF_CUDA(cudaMemcpyAsync(ids_.get(), slot.ids.get(), step.ids.size_bytes(), cudaMemcpyHostToDevice, stream));
  }
  slot.copied.record(stream);
  slot.used = true;
  return moved;
}

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
    cudaStreamEndCapture(stream, &captured);  // leaves the stream usable, so that the error can be reported
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();  // or the next launch would be blamed for it
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
  if (ended != cudaSuccess) cudaGetLastError();
  MRMF_CUDA(ended);
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
    calls();  // may forget all records, including this one
    return;
  }
  if (!records_[key]) {
    Record made = record(stream_, calls);
    records_[key] = std::move(made);
  }
  MRMF_CUDA(cudaGraphLaunch(records_[key].get(), stream_));
}

}  // namespace mrmf::cuda
