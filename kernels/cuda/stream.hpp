// Owners of CUDA's streams and events.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {

/// A stream that does not wait for the legacy default stream. Lower numbers of priority go first.
class Stream {
 public:
  explicit Stream(int priority = 0) {
    cudaStream_t stream = nullptr;
    MRMF_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    stream_.reset(stream);
  }
  cudaStream_t get() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    MRMF_CUDA(cudaEventCreateWithFlags(&event, flags));
    event_.reset(event);
  }
  cudaEvent_t get() const { return event_.get(); }
  void record(cudaStream_t stream) const { MRMF_CUDA(cudaEventRecord(event_.get(), stream)); }
  void wait(cudaStream_t stream) const { MRMF_CUDA(cudaStreamWaitEvent(stream, event_.get(), 0)); }  ///< `stream` waits
  void synchronise() const { MRMF_CUDA(cudaEventSynchronize(event_.get())); }                        ///< the host waits

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

}  // namespace mrmf::cuda
