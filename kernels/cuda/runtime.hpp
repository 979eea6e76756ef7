// Tools around the CUDA runtime: status codes as errors, and owners of streams, events and memory. The macros for
// cuBLAS, cuDNN and NCCL need that library's header, which their users include.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/timer.hpp"

namespace mrmf::cuda {

/// A failed call and its place.
struct FailedCall {
  const char* library;     ///< "CUDA", "cuDNN", "cuBLAS", "NCCL"
  const char* expression;  ///< as it stands in the source
  const char* file;
  int line;
};

/// Throws FaultError("<library>: <text> in <expression> (<file>:<line>)"), on one line whatever the text holds. Clears
/// the runtime's last error, which the next launch's check would report, too; that of a broken device comes again.
[[noreturn]] void call_failed(const FailedCall& call, const char* text);

}  // namespace mrmf::cuda

/// Runs a call of the CUDA runtime; FaultError when it fails.
#define MRMF_CUDA(call)                                                                                \
  do {                                                                                                 \
    const cudaError_t mrmf_status = (call);                                                            \
    if (mrmf_status != cudaSuccess)                                                                    \
      ::mrmf::cuda::call_failed({"CUDA", #call, __FILE__, __LINE__}, cudaGetErrorString(mrmf_status)); \
  } while (false)

/// Runs a call of cuBLAS or cuBLASLt, which share one status type; FaultError when it fails.
#define MRMF_CUBLAS(call)                                                                                     \
  do {                                                                                                        \
    const cublasStatus_t mrmf_status = (call);                                                                \
    if (mrmf_status != CUBLAS_STATUS_SUCCESS)                                                                 \
      ::mrmf::cuda::call_failed({"cuBLAS", #call, __FILE__, __LINE__}, cublasLtGetStatusString(mrmf_status)); \
  } while (false)

/// Runs a call of cuDNN; FaultError when it fails, with the library's own explanation (cudnn_text() of cudnn.hpp).
#define MRMF_CUDNN(call)                                                                                              \
  do {                                                                                                                \
    const cudnnStatus_t mrmf_status = (call);                                                                         \
    if (mrmf_status != CUDNN_STATUS_SUCCESS)                                                                          \
      ::mrmf::cuda::call_failed({"cuDNN", #call, __FILE__, __LINE__}, ::mrmf::cuda::cudnn_text(mrmf_status).c_str()); \
  } while (false)

/// Runs a call of NCCL; FaultError when it fails, with NCCL's last explanation. A non-blocking communicator's
/// ncclInProgress is not an error.
#define MRMF_NCCL(call)                                                                               \
  do {                                                                                                \
    const ncclResult_t mrmf_status = (call);                                                          \
    if (mrmf_status != ncclSuccess && mrmf_status != ncclInProgress)                                  \
      ::mrmf::cuda::call_failed(                                                                      \
          {"NCCL", #call, __FILE__, __LINE__},                                                        \
          (std::string(ncclGetErrorString(mrmf_status)) + ": " + ncclGetLastError(nullptr)).c_str()); \
  } while (false)

namespace mrmf::cuda {

/// A stream that does not wait for the legacy default stream. A lower priority number goes first.
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

/// Device memory of at least 1 byte. FaultError with the bytes wanted and free when there is too little.
void* device_memory(std::size_t bytes);

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};
struct FreePinned {
  void operator()(void* p) const { cudaFreeHost(p); }
};

/// Device memory in bytes, the counterpart of Arena for types other than float32. Unspecified contents, aligned to 256
/// bytes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) data_.reset(device_memory(bytes));
  }
  template <class T = void>
  T* get() const {
    return static_cast<T*>(data_.get());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, FreeDevice> data_;
  std::size_t bytes_ = 0;
};

/// Host memory for copies to and from the device that run while the host continues.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t bytes) {
    if (bytes == 0) return;
    void* data = nullptr;
    MRMF_CUDA(cudaMallocHost(&data, bytes));
    data_.reset(data);
  }
  template <class T = void>
  T* get() const {
    return static_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<void, FreePinned> data_;
};

/// Waits for the device without getting stuck in it: a collective whose peer has died never ends by itself.
class Waiter {
 public:
  /// `check` is called now and then during a wait, with the time waited so far. It may throw.
  void watch(const WaitLimit& limit, std::function<void(const WaitTimer&)> check) {
    limit_ = limit;
    check_ = std::move(check);
  }
  void stop_watching() { check_ = nullptr; }

  /// Returns when all work on `stream` is done, or all that was on it when `event` was recorded. FaultError when it
  /// failed.
  void wait(cudaStream_t stream) const;
  void wait(cudaEvent_t event) const;

 private:
  void poll(const std::function<cudaError_t()>& query) const;
  WaitLimit limit_;
  std::function<void(const WaitTimer&)> check_;
};

}  // namespace mrmf::cuda
