#include "kernels/cuda/device_model.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "kernels/check.hpp"
#include "kernels/cuda/check_cudnn.hpp"

namespace mrmf::cuda {
namespace {

std::int32_t current_device() {
  int device = 0;
  MRMF_CUDA(cudaGetDevice(&device));
  return device;
}

std::string text_of(const Descriptor& properties) {
  return properties.get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

}  // namespace

DeviceModel DeviceModel::current(cudnnHandle_t handle) {
  cudaDeviceProp properties;
  MRMF_CUDA(cudaGetDeviceProperties(&properties, current_device()));
  DeviceModel model;
  model.name_ = properties.name;
  model.handle_ = handle;
  return model;
}

DeviceModel DeviceModel::from_json(const std::string& text) {
  const nlohmann::json description = nlohmann::json::parse(text, nullptr, false);
  if (!description.is_object() || !description.contains("deviceName") || !description["deviceName"].is_string()) {
    throw FaultError("the description of a device is no JSON object with a 'deviceName'; use what cuDNN printed there");
  }
  DeviceModel model;
  model.name_ = description["deviceName"];
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, text);
  properties.finalize();
  model.properties_ = std::make_shared<const Descriptor>(std::move(properties));
  return model;
}

std::string DeviceModel::key() const {
  const std::size_t version = cudnnGetVersion();
  return name_ + ", cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string DeviceModel::json() const {
  if (properties_) return text_of(*properties_);
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::int32_t device = current_device();
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
  properties.finalize();
  return text_of(properties);
}

}  // namespace mrmf::cuda
