#include "kernels/cuda/cudnn.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/cuda/runtime.hpp"
#include "kernels/errors.hpp"

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
  // cuDNN fills in descriptors that the caller has made.
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
  for (const auto note :
       {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    notes.transforms = notes.transforms || has(note);
  notes.compiled =
      std::find(behaviour.begin(), behaviour_end, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behaviour_end;
  return notes;
}

std::map<int, std::int64_t> knobs_of(const Descriptor& config) {
  // cuDNN does not tell the number of choices: it fills as many of the offered descriptors as it has.
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
  if (config.notes.transforms) text += ", by a transform";
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
    } catch (const FaultError&) {  // skip an engine that cannot describe itself
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
