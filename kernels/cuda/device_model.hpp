// What cuDNN plans are made for: the device at hand, or the description of one that is not.
#pragma once

#include <cudnn.h>

#include <memory>
#include <string>

#include "kernels/cuda/cudnn_descriptor.hpp"

namespace mrmf::cuda {

class DeviceModel {
 public:
  /// The device that is current when this is called. Borrows `handle`, which must outlive the model and its copies.
  static DeviceModel current(cudnnHandle_t handle);

  /// A device described by the JSON text that json() gives on that device. Plans for it can be made, compiled and
  /// written down on any machine, but not run. FaultError when cuDNN does not accept the text.
  static DeviceModel from_json(const std::string& text);

  const std::string& name() const { return name_; }  ///< "NVIDIA H200"
  std::string key() const;                           ///< what a kept plan depends on: "NVIDIA H200, cuDNN 9.19.0"
  std::string json() const;                          ///< cuDNN's description of the device

  cudnnHandle_t handle() const { return handle_; }                    ///< null for a described device
  const Descriptor* properties() const { return properties_.get(); }  ///< null for the current device

 private:
  DeviceModel() = default;

  std::string name_;
  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<const Descriptor> properties_;
};

}  // namespace mrmf::cuda
