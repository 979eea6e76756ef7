#pragma once
#include <cudnn.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated/cudnn_model.hpp"

namespace mrmf::emulated::dnn {

class Descriptor;
using DescriptorPtr = std::shared_ptr<Descriptor>;

/// One attribute as it was set.
struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<char> bytes;
  std::vector<DescriptorPtr> descriptors;  // for CUDNN_TYPE_BACKEND_DESCRIPTOR
};

std::size_t size_of(cudnnBackendAttributeType_t type);

/// A backend descriptor: attributes until finalize() turns them into what they mean. Others keep it alive, so that
/// its handle may be destroyed once it is part of them.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) : type_(type) {}
  /// A finalized descriptor without attributes, as heuristics give.
  static DescriptorPtr finished(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptorType_t type() const { return type_; }
  bool finalized() const { return finalized_; }

  void set(cudnnBackendAttributeName_t name, Attribute attribute);
  void finalize();
  /// The attribute's values; count of those there are in `*count`, at most `room` are written.
  void get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t room, std::int64_t* count,
           void* values) const;

  bool has(cudnnBackendAttributeName_t name) const { return attributes_.count(name) > 0; }
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name) const;
  std::int64_t integer(cudnnBackendAttributeName_t name) const;
  double real(cudnnBackendAttributeName_t name, double otherwise) const;
  bool flag(cudnnBackendAttributeName_t name) const;
  std::string text(cudnnBackendAttributeName_t name) const;
  std::vector<void*> pointers(cudnnBackendAttributeName_t name) const;
  /// The descriptors of an attribute; all are finalized.
  const std::vector<DescriptorPtr>& parts(cudnnBackendAttributeName_t name) const;
  const Descriptor& part(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;
  template <class Enum>
  Enum choice(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;

  // What finalize() made of the attributes, by the descriptor's type.
  Tensor tensor;
  Convolution convolution;
  Operation operation;          // pointwise descriptors: kind and slope only
  std::vector<Tensor> tensors;  // of an operation
  std::shared_ptr<const Graph> graph;
  std::int64_t engine = -1;
  std::vector<std::int64_t> found;  // heuristics
  std::int64_t knob_value = 0;      // of the one knob there is, CUDNN_KNOB_TYPE_KERNEL_CFG

 private:
  const Attribute& attribute(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  cudnnBackendDescriptorType_t type_;
  bool finalized_ = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes_;
};

template <class Enum>
Enum Descriptor::choice(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  const Attribute& found_attribute = attribute(name, type);
  require(found_attribute.count == 1 && found_attribute.bytes.size() == sizeof(Enum), CUDNN_STATUS_BAD_PARAM,
          "attribute " + std::to_string(name) + " needs one value");
  Enum value;
  std::copy(found_attribute.bytes.begin(), found_attribute.bytes.end(), reinterpret_cast<char*>(&value));
  return value;
}

/// What a handle given to the program points to.
struct Handle {
  DescriptorPtr descriptor;
};
DescriptorPtr from_handle(cudnnBackendDescriptor_t handle);

// Per descriptor type: attributes into meaning.
bool known_type(cudnnBackendDescriptorType_t type);
void finalize_tensor(Descriptor& d);
void finalize_convolution(Descriptor& d);
void finalize_pointwise(Descriptor& d);
void finalize_convolution_operation(Descriptor& d);
void finalize_pointwise_operation(Descriptor& d);
void finalize_graph(Descriptor& d);
void finalize_engine(Descriptor& d);
void finalize_engine_config(Descriptor& d);
void finalize_knob_choice(Descriptor& d);
void finalize_heuristics(Descriptor& d);
void finalize_plan(Descriptor& d);
void finalize_variant_pack(Descriptor& d);
void finalize_device(Descriptor& d);

/// Attributes that are computed, not set. False when `name` is none of them.
bool get_computed(const Descriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t room, std::int64_t* count, void* values);

}  // namespace mrmf::emulated::dnn
