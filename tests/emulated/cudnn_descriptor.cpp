#include "tests/emulated/cudnn_descriptor.hpp"

#include <algorithm>
#include <cstring>

namespace mrmf::emulated::dnn {
namespace {

using Finalizer = void (*)(Descriptor&);

Finalizer finalizer(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return finalize_tensor;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return finalize_convolution;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return finalize_pointwise;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return finalize_convolution_operation;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return finalize_pointwise_operation;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finalize_graph;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return finalize_engine;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return finalize_engine_config;
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: return finalize_knob_choice;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return finalize_heuristics;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finalize_plan;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return finalize_variant_pack;
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: return finalize_device;
    default: return nullptr;
  }
}

std::string naming(cudnnBackendAttributeName_t name) { return "attribute " + std::to_string(name); }

}  // namespace

bool known_type(cudnnBackendDescriptorType_t type) { return finalizer(type) != nullptr; }

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    default: return 4;  // enumerations, float and int32
  }
}

DescriptorPtr from_handle(cudnnBackendDescriptor_t handle) {
  require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a null descriptor");
  return static_cast<Handle*>(handle)->descriptor;
}

DescriptorPtr Descriptor::finished(cudnnBackendDescriptorType_t type) {
  auto descriptor = std::make_shared<Descriptor>(type);
  descriptor->finalized_ = true;
  return descriptor;
}

void Descriptor::set(cudnnBackendAttributeName_t name, Attribute attribute) {
  require(!finalized_, CUDNN_STATUS_BAD_PARAM, naming(name) + " set after the descriptor was finalized");
  attributes_[name] = std::move(attribute);
}

void Descriptor::finalize() {
  require(!finalized_, CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
  finalizer(type_)(*this);
  finalized_ = true;
}

const Attribute& Descriptor::attribute(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  const auto at = attributes_.find(name);
  require(at != attributes_.end(), CUDNN_STATUS_BAD_PARAM, naming(name) + " is missing");
  require(
      at->second.type == type, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
      naming(name) + " was set with type " + std::to_string(at->second.type) + " instead of " + std::to_string(type));
  return at->second;
}

std::vector<std::int64_t> Descriptor::integers(cudnnBackendAttributeName_t name) const {
  const Attribute& found_attribute = attribute(name, CUDNN_TYPE_INT64);
  std::vector<std::int64_t> values(static_cast<std::size_t>(found_attribute.count));
  std::copy(found_attribute.bytes.begin(), found_attribute.bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

std::int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const {
  return choice<std::int64_t>(name, CUDNN_TYPE_INT64);
}

double Descriptor::real(cudnnBackendAttributeName_t name, double otherwise) const {
  if (!has(name)) return otherwise;
  if (attributes_.at(name).type == CUDNN_TYPE_FLOAT) return static_cast<double>(choice<float>(name, CUDNN_TYPE_FLOAT));
  return choice<double>(name, CUDNN_TYPE_DOUBLE);
}

bool Descriptor::flag(cudnnBackendAttributeName_t name) const {
  return has(name) && choice<bool>(name, CUDNN_TYPE_BOOLEAN);
}

std::string Descriptor::text(cudnnBackendAttributeName_t name) const {
  const Attribute& found_attribute = attribute(name, CUDNN_TYPE_CHAR);
  return {found_attribute.bytes.begin(), found_attribute.bytes.end()};
}

std::vector<void*> Descriptor::pointers(cudnnBackendAttributeName_t name) const {
  const Attribute& found_attribute = attribute(name, CUDNN_TYPE_VOID_PTR);
  std::vector<void*> values(static_cast<std::size_t>(found_attribute.count));
  std::copy(found_attribute.bytes.begin(), found_attribute.bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

const std::vector<DescriptorPtr>& Descriptor::parts(cudnnBackendAttributeName_t name) const {
  const auto& list = attribute(name, CUDNN_TYPE_BACKEND_DESCRIPTOR).descriptors;
  for (const DescriptorPtr& each : list)
    require(each->finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, naming(name) + " is not finalized");
  return list;
}

const Descriptor& Descriptor::part(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const {
  const auto& list = parts(name);
  require(list.size() == 1, CUDNN_STATUS_BAD_PARAM, naming(name) + " needs one descriptor");
  require(list.front()->type() == type, CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
          naming(name) + " is a descriptor of another type");
  return *list.front();
}

void Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t room,
                     std::int64_t* count, void* values) const {
  require(finalized_, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, naming(name) + " read before the descriptor is finalized");
  if (get_computed(*this, name, type, room, count, values)) return;
  const Attribute& found_attribute = attribute(name, type);
  require(type != CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED, naming(name) + " cannot be read back");
  if (count) *count = found_attribute.count;
  const auto written = static_cast<std::size_t>(std::min(room, found_attribute.count));
  if (values && written) std::memcpy(values, found_attribute.bytes.data(), written * size_of(type));
}

}  // namespace mrmf::emulated::dnn
