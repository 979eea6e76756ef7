// The GPU as operations see it: streams, library handles, shared scratch memory; and a training step on it: the
// transfer of its numbers, and its capture as a CUDA graph.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/cudnn.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/module.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

// A training step on the device: the transfer of its numbers, and its capture as a CUDA graph.

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

// The GPU as operations see it: streams, library handles, shared scratch memory, and the numbers of the step.

class PlanChooser;

class Device {
 public:
  /// Takes the device for the calling thread. ConfigError: no driver, a driver that is too old, no such device,
  /// unsuitable libraries.
  explicit Device(const Settings& settings);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Settings& settings() const { return settings_; }
  const DeviceModel& model() const { return *model_; }
  const std::string& name() const { return model_->name(); }  ///< "NVIDIA H200"
  std::string description() const;                            ///< name, memory, library versions, precision

  cudaStream_t stream() const { return compute_.get(); }
  cudaStream_t copy_stream() const { return copy_.get(); }
  Storage storage() const { return storage_; }
  Work work() const { return {stream(), storage_}; }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  cublasLtHandle_t cublas() const { return cublas_.get(); }
  PlanChooser& plans() { return *plans_; }
  Waiter& waiter() { return waiter_; }
  StepGraphs& step_graphs() { return step_graphs_; }
  StepFeed& step_feed() { return step_feed_; }
  const StepBlock* step() const { return step_feed_.block(); }
  const std::int64_t* ids() const { return step_feed_.ids(); }

  /// Memory that operations share, since they run one after the other: partial sums, a convolution's output that is not
  /// kept, workspace of libraries. Reserved when operations are made, leased to one operation for a call.
  enum class Scratch { sums, output, workspace };
  /// Room for so many bytes. Moves the memory, so nobody may have it.
  void reserve(Scratch use, std::size_t bytes);
  /// The memory, as long as this lives. A second lease of the same is an error: both would write there.
  class Lease {
   public:
    Lease(Device& device, Scratch use);
    ~Lease() { leased_ = false; }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    void* get() const { return memory_; }

   private:
    bool& leased_;
    void* memory_;
  };
  Lease lease(Scratch use) { return {*this, use}; }

  std::size_t free_memory() const;  ///< bytes
  int shared_memory() const;        ///< most bytes that a block can have
  void synchronise() const;         ///< waits for all queued work
  /// After a fault: whether every call will now fail until the process ends.
  bool is_lost() const;

 private:
  struct DestroyCudnn {
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  struct DestroyCublas {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  };
  void open_libraries();

  Settings settings_;
  Storage storage_;
  bool selected_;  // the device is current from here on
  Stream compute_, copy_;
  std::unique_ptr<cudnnContext, DestroyCudnn> cudnn_;
  std::unique_ptr<cublasLtContext, DestroyCublas> cublas_;
  std::unique_ptr<DeviceModel> model_;
  Waiter waiter_;
  StepGraphs step_graphs_;
  StepFeed step_feed_;
  struct Shared {
    DeviceBuffer memory;
    bool leased = false;
  };
  Shared& shared(Scratch use) { return scratch_[static_cast<std::size_t>(use)]; }
  std::array<Shared, 3> scratch_;
  std::unique_ptr<PlanChooser> plans_;
};

/// Whether the kernels of narrow convolutions can do this one here: is_narrow(), rounded factors, and room for a block.
bool is_narrow_on(const Device& device, const ConvGeometry& geometry);
/// Likewise of is_cube(), for enough positions that every multiprocessor has tiles to compute.
bool is_cube_on(const Device& device, const ConvGeometry& geometry, Index rows);

}  // namespace mrmf::cuda
