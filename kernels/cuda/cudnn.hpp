// cuDNN's graph API: descriptors, the devices that plans are made for, the engines proposed for an operation graph, and
// execution plans.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

/// The meaning of a status, and cuDNN's last explanation on this thread.
std::string cudnn_text(cudnnStatus_t status);

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
  cudnnStatus_t try_finalize();  ///< for plans, which cuDNN may rightly refuse

  std::int64_t get_int(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;
  /// Returns the number of values got, at most `capacity`.
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

/// The device that plans are made for: the one at hand, or a described one.
class DeviceModel {
 public:
  /// The device that is current when this is called. Borrows `handle`, which must outlive the model and its copies.
  static DeviceModel current(cudnnHandle_t handle);

  /// A device described by the JSON text that json() gives on it. Plans for it can be made, compiled and serialised on
  /// any machine, but not run. FaultError when cuDNN does not accept the text.
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

/// cuDNN's notes on an engine.
struct EngineNotes {
  bool tensor_cores = false;
  bool down_converts = false;      ///< inputs are rounded to a narrower type
  bool reduced_reduction = false;  ///< sums in less than fp32
  bool nondeterministic = false;
  bool transforms = false;  ///< Winograd's or Fourier's: other products than the definition's, with other roundings
  bool compiled = false;    ///< NVRTC compiles its kernel when the plan is made
};

/// An engine with its tuning knobs set, as the heuristics propose it.
struct EngineConfig {
  Descriptor descriptor;
  std::int64_t engine;
  std::map<int, std::int64_t> knobs;  ///< cudnnBackendKnobType_t to value; others have their default
  std::size_t workspace;              ///< bytes, known before anything is compiled
  EngineNotes notes;
};
std::string describe(const EngineConfig& config);  ///< "engine 7 (knobs 24=26), tensor cores, compiled at run time"

/// The proposals of one heuristic mode, best first; none when that mode does not know the graph.
std::vector<EngineConfig> propose_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                          const DeviceModel& device);

class ExecutionPlan {
 public:
  /// Checks support and compiles, which takes up to seconds. None, with `reason` set, when the engine cannot do it.
  static std::optional<ExecutionPlan> make(const EngineConfig& config, const DeviceModel& device, std::string& reason);

  /// A plan from json() on the same kind of device with the same cuDNN. FaultError when cuDNN does not accept it.
  static ExecutionPlan from_json(const std::string& text, const DeviceModel& device);

  std::size_t workspace() const { return workspace_; }  ///< bytes of device memory that run() needs
  std::string json() const { return descriptor_.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); }

  /// Device memory for each tensor of the graph that is not virtual, by the tensors' ids.
  struct Binding {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
  };
  /// Queues the graph on the handle's stream. May be captured into a CUDA graph.
  void run(cudnnHandle_t handle, const Binding& binding, void* workspace) const;

 private:
  explicit ExecutionPlan(Descriptor descriptor);

  Descriptor descriptor_;
  std::size_t workspace_;
};

}  // namespace mrmf::cuda
