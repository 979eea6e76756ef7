// From an operation graph to something that runs: the engines cuDNN proposes, what it says of them, and execution
// plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn_descriptor.hpp"
#include "kernels/cuda/device_model.hpp"

namespace mrmf::cuda {

/// What cuDNN's notes say of an engine.
struct EngineNotes {
  bool tensor_cores = false;
  bool down_converts = false;      ///< inputs are rounded to a narrower type
  bool reduced_reduction = false;  ///< sums in less than fp32
  bool nondeterministic = false;
  bool compiled = false;  ///< its kernel is compiled when the plan is made, by NVRTC
};

/// An engine with its tuning knobs set, as the heuristics propose it.
struct EngineConfig {
  Descriptor descriptor;
  std::int64_t engine;
  std::map<int, std::int64_t> knobs;  ///< cudnnBackendKnobType_t to value; what is not set has its default
  std::size_t workspace;              ///< bytes, known before anything is compiled
  EngineNotes notes;
};
std::string describe(const EngineConfig& config);  ///< "engine 7 (knobs 24=26), tensor cores, compiled at run time"

/// The proposals of one heuristic mode, best first; none when that mode does not know the graph.
std::vector<EngineConfig> propose_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                          const DeviceModel& device);

class ExecutionPlan {
 public:
  /// Checks support and compiles, which takes up to seconds. None, and why in `reason`, when the engine cannot do it.
  static std::optional<ExecutionPlan> make(const EngineConfig& config, const DeviceModel& device, std::string& reason);

  /// A plan that json() gave on the same kind of device with the same cuDNN. FaultError when it is not accepted.
  static ExecutionPlan from_json(const std::string& text, const DeviceModel& device);

  std::size_t workspace() const { return workspace_; }  ///< bytes of device memory that run() needs
  std::string json() const { return descriptor_.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); }

  /// Device memory for each tensor of the graph that is not virtual, by the tensors' ids.
  struct Binding {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
  };
  /// Queues the graph on the handle's stream. Can be captured into a CUDA graph.
  void run(cudnnHandle_t handle, const Binding& binding, void* workspace) const;

 private:
  explicit ExecutionPlan(Descriptor descriptor);

  Descriptor descriptor_;
  std::size_t workspace_;
};

}  // namespace mrmf::cuda
