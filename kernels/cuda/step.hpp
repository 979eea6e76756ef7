// A training step on the device: the transfer of its numbers, and its capture as a CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

/// Sends a step's numbers to the device. Kernels read them there, so that a captured step can be replayed.
class StepFeed {
 public:
  explicit StepFeed(const Waiter& waiter);

  /// Makes room for this many ids. True when their memory moved, because captured steps hold the old address.
  bool reserve(Index ids, cudaStream_t stream);
  /// Queues the copy of the step's numbers and ids. True as for reserve.
  bool send(const StepContext& step, cudaStream_t stream);

  const StepBlock* block() const { return block_.get<StepBlock>(); }    ///< on the device
  const std::int64_t* ids() const { return ids_.get<std::int64_t>(); }  ///< on the device, one per row

 private:
  /// Pinned memory of one step. Rewritten only after its copy is done.
  struct Slot {
    PinnedBuffer block, ids;
    Event copied;
    bool used = false;
  };

  const Waiter& waiter_;
  DeviceBuffer block_, ids_;
  std::size_t capacity_ = 0;  // capacity of ids
  std::array<Slot, 4> slots_;
  std::size_t next_ = 0;
};

struct DestroyGraphExec {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using CapturedGraph = std::unique_ptr<CUgraphExec_st, DestroyGraphExec>;

/// A CUDA graph of all that `calls` queue on the stream, to be launched at once. None of it runs yet.
CapturedGraph capture(cudaStream_t stream, const std::function<void()>& calls);

/// Steps as CUDA graphs: launching a hundred kernels one by one costs as much as running them. A key's first step runs
/// call by call, which also loads its kernels. The second is captured, and from then on its graph is launched.
class StepGraphs {
 public:
  StepGraphs(cudaStream_t stream, bool enabled) : stream_(stream), enabled_(enabled) {}

  void run(std::uint64_t key, const std::function<void()>& calls);
  void drop_captures() { graphs_.clear(); }

 private:
  cudaStream_t stream_;
  bool enabled_;
  std::map<std::uint64_t, CapturedGraph> graphs_;  // an empty one: run once
};

}  // namespace mrmf::cuda
