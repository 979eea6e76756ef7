// The numbers of a step on their way to the device: kernels read them there, so that a recorded step can be replayed.
#pragma once

#include <array>

#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/step_block.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/waiter.hpp"

namespace mrmf::cuda {

class StepFeed {
 public:
  explicit StepFeed(const Waiter& waiter);

  /// Makes room for this many ids. True when their memory moved: recorded steps hold the old address.
  bool reserve(Index ids, cudaStream_t stream);
  /// Queues the copy of the step's numbers and ids. True as for reserve.
  bool send(const Step& step, cudaStream_t stream);

  const StepBlock* block() const { return block_.get<StepBlock>(); }    ///< on the device
  const std::int64_t* ids() const { return ids_.get<std::int64_t>(); }  ///< on the device, one per row

 private:
  /// Pinned memory of one step; it is written again only when its copy is done.
  struct Slot {
    PinnedBuffer block, ids;
    Event copied;
    bool used = false;
  };

  const Waiter& waiter_;
  DeviceBuffer block_, ids_;
  std::size_t capacity_ = 0;  // of ids
  std::array<Slot, 4> slots_;
  std::size_t next_ = 0;
};

}  // namespace mrmf::cuda
