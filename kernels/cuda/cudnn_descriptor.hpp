// The one object of cuDNN's graph API: a descriptor with attributes, owned.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mrmf::cuda {

/// Owns a backend descriptor. Attributes are set, then finalize() makes it usable. Needs no GPU.
/// Every member throws FaultError with cuDNN's explanation.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void set_int(cudnnBackendAttributeName_t name, std::int64_t value);
  void set_ints(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void set_descriptor(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set_descriptors(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values);
  void set_handle(cudnnBackendAttributeName_t name, cudnnHandle_t handle);
  void set_text(cudnnBackendAttributeName_t name, const std::string& text);
  void finalize();
  cudnnStatus_t try_finalize();  ///< for descriptors that cuDNN may rightly refuse: plans

  std::int64_t get_int(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;
  /// Number of values got, at most `capacity`.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t capacity,
                   void* values) const;
  /// All descriptors of an attribute, each of type `type`.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace mrmf::cuda
