#include "kernels/cuda/cudnn_descriptor.hpp"

#include <algorithm>
#include <array>

#include "kernels/cuda/check_cudnn.hpp"

namespace mrmf::cuda {

std::string cudnn_text(cudnnStatus_t status) {
  std::array<char, 2048> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  std::string text = cudnnGetErrorString(status);
  if (last.front() != '\0') text += std::string(": ") + last.data();
  return text;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  MRMF_CUDNN(cudnnBackendCreateDescriptor(type, &descriptor));
  descriptor_.reset(descriptor);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                     const void* values) {
  MRMF_CUDNN(cudnnBackendSetAttribute(get(), name, type, count, values));
}

void Descriptor::set_int(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptor::set_ints(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void Descriptor::set_descriptor(cudnnBackendAttributeName_t name, const Descriptor& value) {
  cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void Descriptor::set_descriptors(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (const Descriptor& value : values) descriptors.push_back(value.get());
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(descriptors.size()), descriptors.data());
}

void Descriptor::set_handle(cudnnBackendAttributeName_t name, cudnnHandle_t handle) {
  set(name, CUDNN_TYPE_HANDLE, 1, &handle);
}

void Descriptor::set_text(cudnnBackendAttributeName_t name, const std::string& text) {
  set(name, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()), text.data());
}

void Descriptor::finalize() { MRMF_CUDNN(cudnnBackendFinalize(get())); }

cudnnStatus_t Descriptor::try_finalize() { return cudnnBackendFinalize(get()); }

std::int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t capacity,
                             void* values) const {
  std::int64_t count = 0;
  MRMF_CUDNN(cudnnBackendGetAttribute(get(), name, type, capacity, &count, values));
  return std::min(count, capacity);
}

std::int64_t Descriptor::get_int(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  std::int64_t size = 0;
  MRMF_CUDNN(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_CHAR, 0, &size, nullptr));
  std::string text(static_cast<std::size_t>(size), '\0');
  get(name, CUDNN_TYPE_CHAR, size, text.data());
  text.resize(std::min(text.find('\0'), text.size()));  // the count may or may not include a final zero
  return text;
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
  std::int64_t count = 0;
  MRMF_CUDNN(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  // cuDNN fills descriptors that the caller made.
  std::vector<Descriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    descriptors.emplace_back(type);
    raw.push_back(descriptors.back().get());
  }
  const std::int64_t got = count > 0 ? get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data()) : 0;
  while (static_cast<std::int64_t>(descriptors.size()) > got) descriptors.pop_back();
  return descriptors;
}

}  // namespace mrmf::cuda
