// NCCL's communicators of a device, and the one stream to which their calls go. Private to mpi/nccl_*.
//
// Two things must never happen: a rank waits forever for one that has died, or ranks queue their calls in different
// orders. So communicators are non-blocking, and every wait for the device polls them (Waiter). And all calls, of sums
// and of messages, over whatever ranks, go to one stream in the order in which the program makes them. What a rank
// queues is a part of one sequence that all ranks have, so no two ranks wait for each other. On two streams, kernels of
// two communicators could take the device in one order here and in another there.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/step_and_collectives.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cuda {

class NcclCommunicator;

/// The stream of all communicators of a device. It outlives them.
class NcclStream {
 public:
  explicit NcclStream(Device& device);
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  Device& device() const { return device_; }
  cudaStream_t get() const { return stream_.get(); }
  /// What is queued here next begins after all computation queued so far.
  void fork();
  /// Gives up all communicators: what is left of their work may wait for a rank that is gone. Then throws FaultError.
  [[noreturn]] void leave(const std::string& message);

  /// Keeps a communicator in the list of those that waits poll.
  class Listed {
   public:
    Listed(NcclStream& stream, NcclCommunicator& communicator);
    ~Listed();
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

   private:
    NcclStream& stream_;
    NcclCommunicator& communicator_;
  };

 private:
  void check(const WaitTimer& timer);  // called while the host waits for the device

  Device& device_;
  Stream stream_;
  Event ready_;
  std::vector<NcclCommunicator*> communicators_;
};

/// One rank of a set of them.
class NcclCommunicator {
 public:
  /// Collective over the peers. Keeps a reference to the stream. FaultError when they cannot be connected.
  NcclCommunicator(NcclStream& stream, const Peers& peers);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  NcclStream& stream() const { return stream_; }
  /// Queues a call, or a group of calls, behind all computation so far. Returns when NCCL has accepted it; FaultError
  /// when it failed or took too long. `what` it is, for messages to users.
  void queue(const char* what, const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call);
  /// FaultError when NCCL has found an error since the last call.
  void check();
  [[noreturn]] void fail_late(const char* what, double seconds);
  void abort();

 private:
  void connect(const Peers& peers);
  void wait_until_accepted(const char* what);
  [[noreturn]] void fail(ncclResult_t result, const char* what);
  bool finished();

  NcclStream& stream_;
  int rank_;  // in the world
  ncclComm_t comm_ = nullptr;
  NcclStream::Listed listed_;
};

/// Calls that begin and end together, so that ranks which send to each other do not wait for each other. `calls` hands
/// each call's result to the function that it is given; the first that is an error is returned.
using NcclAdd = std::function<void(ncclResult_t)>;
ncclResult_t nccl_group(const std::function<void(const NcclAdd&)>& calls);

/// What computation waits for: calls that were queued, and the device's time of these waits.
class NcclWait {
 public:
  explicit NcclWait(NcclStream& stream);
  ~NcclWait();
  NcclWait(const NcclWait&) = delete;
  NcclWait& operator=(const NcclWait&) = delete;

  /// Call behind what was queued...
  void begin();
  /// ...for which computation waits here. Does nothing where nothing was begun.
  void end();
  SumTime take_time();

 private:
  NcclStream& stream_;
  Event done_;
  bool begun_ = false;
  DeviceBuffer stamps_;
};

/// Sums over the communicator's ranks and messages between them (nccl_collectives.cpp).
std::unique_ptr<AllReduce> make_nccl_sums(std::shared_ptr<NcclCommunicator> communicator, int rank, int ranks);
std::unique_ptr<Messages> make_nccl_messages(std::shared_ptr<NcclCommunicator> communicator, int rank);

}  // namespace mrmf::cuda
