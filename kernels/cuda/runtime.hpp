// Memory by bytes, on the device and pinned on the host. The counterpart of Arena for what is not float32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "kernels/cuda/check.hpp"

namespace mrmf::cuda {

/// At least 1 byte. FaultError with the bytes wanted and free when there is not enough.
void* device_memory(std::size_t bytes);

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};
struct FreePinned {
  void operator()(void* p) const { cudaFreeHost(p); }
};

/// Device memory, contents unspecified; aligned to 256 bytes.
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

/// Host memory that the device copies from and to while the host goes on.
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

}  // namespace mrmf::cuda
