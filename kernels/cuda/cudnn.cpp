#include "kernels/cuda/cudnn.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/check.hpp"
#include "kernels/cuda/check_cudnn.hpp"

namespace mrmf::cuda {
namespace {

EngineNotes notes_of(const Descriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> numerical;
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> behaviour;
  const auto numerical_end = numerical.begin() + engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                            numerical.size(), numerical.data());
  const auto behaviour_end = behaviour.begin() + engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                                            behaviour.size(), behaviour.data());
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(numerical.begin(), numerical_end, note) != numerical_end;
  };
  EngineNotes notes;
  notes.tensor_cores = has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  notes.down_converts = has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  notes.reduced_reduction = has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  notes.nondeterministic = has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  notes.compiled =
      std::find(behaviour.begin(), behaviour_end, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behaviour_end;
  return notes;
}

std::map<int, std::int64_t> knobs_of(const Descriptor& config) {
  // The number of choices cannot be asked for: cuDNN fills as many as it has of those that are offered.
  std::vector<Descriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    raw.push_back(choices.back().get());
  }
  const std::int64_t count =
      config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, raw.data());
  std::map<int, std::int64_t> knobs;
  for (std::int64_t i = 0; i < count; ++i) {
    cudnnBackendKnobType_t knob = CUDNN_KNOB_TYPE_COUNTS;
    choices[i].get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob);
    knobs[knob] = choices[i].get_int(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  }
  return knobs;
}

void set_device(Descriptor& plan, const DeviceModel& device) {
  if (device.handle() != nullptr) plan.set_handle(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, device.handle());
  if (device.properties() != nullptr) plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device.properties());
}

}  // namespace

std::string describe(const EngineConfig& config) {
  std::string text = "engine " + std::to_string(config.engine);
  std::string separator = " (knobs ";
  for (const auto& [knob, value] : config.knobs) {
    text += separator + std::to_string(knob) + "=" + std::to_string(value);
    separator = " ";
  }
  if (!config.knobs.empty()) text += ")";
  if (config.notes.tensor_cores) text += ", tensor cores";
  if (config.notes.down_converts) text += ", narrows its inputs";
  if (config.notes.reduced_reduction) text += ", sums below fp32";
  if (config.notes.nondeterministic) text += ", nondeterministic";
  if (config.notes.compiled) text += ", compiled at run time";
  return text;
}

std::vector<EngineConfig> propose_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                          const DeviceModel& device) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device.properties() != nullptr) {
    heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device.properties());
  }
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return {};
  std::vector<EngineConfig> configs;
  for (Descriptor& config :
       heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
    try {
      const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t raw = engine.get();
      config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
      const auto workspace = static_cast<std::size_t>(config.get_int(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
      std::map<int, std::int64_t> knobs = knobs_of(config);
      configs.push_back({std::move(config), engine.get_int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), std::move(knobs), workspace,
                         notes_of(engine)});
    } catch (const FaultError&) {  // an engine that cannot say what it is is not proposed
    }
  }
  return configs;
}

ExecutionPlan::ExecutionPlan(Descriptor descriptor)
    : descriptor_(std::move(descriptor)),
      workspace_(static_cast<std::size_t>(descriptor_.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

std::optional<ExecutionPlan> ExecutionPlan::make(const EngineConfig& config, const DeviceModel& device,
                                                 std::string& reason) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_device(plan, device);
  plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.descriptor);
  const cudnnStatus_t status = plan.try_finalize();
  if (status == CUDNN_STATUS_SUCCESS) return ExecutionPlan(std::move(plan));
  reason = cudnn_text(status);
  return std::nullopt;
}

ExecutionPlan ExecutionPlan::from_json(const std::string& text, const DeviceModel& device) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_device(plan, device);
  plan.set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, text);
  plan.finalize();
  return ExecutionPlan(std::move(plan));
}

void ExecutionPlan::run(cudnnHandle_t handle, const Binding& binding, void* workspace) const {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_ints(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, binding.ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(binding.pointers.size()), binding.pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize();
  MRMF_CUDNN(cudnnBackendExecute(handle, descriptor_.get(), pack.get()));
}

}  // namespace mrmf::cuda
