// From operations to plans: graphs, engines, heuristics.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/emulated/cudnn_descriptor.hpp"

namespace mrmf::emulated::dnn {
namespace {

void add_tensor(Graph& graph, const Tensor& tensor) {
  for (const Tensor& each : graph.tensors) {
    if (each.uid != tensor.uid) continue;
    require(each.dims == tensor.dims && each.strides == tensor.strides && each.bf16 == tensor.bf16,
            CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
            "two tensors with unique id " + std::to_string(tensor.uid) + " in a graph");
    return;
  }
  require(!tensor.is_virtual || !tensor.bf16, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
          "a virtual tensor of another type than float");
  graph.tensors.push_back(tensor);
}

/// Puts every operation behind those that make its virtual inputs.
void sort_operations(Graph& graph) {
  std::vector<Operation> sorted;
  std::set<std::int64_t> made;
  const auto there = [&](std::int64_t uid) { return uid == 0 || !graph.tensor(uid).is_virtual || made.count(uid); };
  while (!graph.operations.empty()) {
    const auto next = std::find_if(graph.operations.begin(), graph.operations.end(),
                                   [&](const Operation& each) { return there(each.x) && there(each.b); });
    require(next != graph.operations.end(), CUDNN_STATUS_BAD_PARAM, "a virtual tensor that no operation makes");
    require(made.insert(next->y).second, CUDNN_STATUS_BAD_PARAM, "two operations make one tensor");
    sorted.push_back(*next);
    graph.operations.erase(next);
  }
  graph.operations = std::move(sorted);
}

/// Writes `values` as the result of cudnnBackendGetAttribute.
template <class T>
bool give(const std::vector<T>& list, std::int64_t room, std::int64_t* count, void* values) {
  if (count) *count = static_cast<std::int64_t>(list.size());
  const auto written = std::min(list.size(), static_cast<std::size_t>(std::max<std::int64_t>(room, 0)));
  if (values && written) std::memcpy(values, list.data(), written * sizeof(T));
  return true;
}

/// Puts finalized descriptors into the ones that the caller made.
void fill(void* handles, std::size_t index, const DescriptorPtr& made) {
  auto* handle = static_cast<Handle*>(static_cast<void**>(handles)[index]);
  require(handle && handle->descriptor->type() == made->type(), CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
          "results need descriptors made before, of the right type");
  handle->descriptor = made;
}

DescriptorPtr make(cudnnBackendDescriptorType_t type, const Descriptor& from, std::int64_t engine_index) {
  DescriptorPtr made = Descriptor::finished(type);
  made->graph = from.graph;
  made->engine = engine_index;
  return made;
}

bool get_found(const Descriptor& d, std::int64_t room, std::int64_t* count, void* values) {
  const auto found = static_cast<std::int64_t>(d.found.size());
  const std::int64_t written = values ? std::min(room, found) : found;
  for (std::int64_t i = 0; values && i < written; ++i)
    fill(values, static_cast<std::size_t>(i),
         make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, d, d.found[static_cast<std::size_t>(i)]));
  if (count) *count = written;
  return true;
}

/// Engines with tensor cores have one knob, so that their proposals differ by more than the engine.
bool get_knobs(const Descriptor& d, std::int64_t room, std::int64_t* count, void* values) {
  const bool has_knob = engine(d.engine).tensor_core && room > 0 && values;
  if (has_knob) {
    DescriptorPtr choice = Descriptor::finished(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice->knob_value = 10 + d.engine;
    fill(values, 0, choice);
  }
  if (count) *count = has_knob ? 1 : 0;
  return true;
}

std::vector<cudnnBackendNumericalNote_t> numerical_notes(const Engine& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes;
  if (engine.tensor_core) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (engine.down_converts) notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  if (engine.nondeterministic) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return notes;
}

std::vector<cudnnBackendBehaviorNote_t> behavior_notes(const Engine& engine) {
  if (engine.runtime_compiled) return {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
  return {};
}

}  // namespace

void finalize_graph(Descriptor& d) {
  auto graph = std::make_shared<Graph>();
  for (const DescriptorPtr& each : d.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    require(!each->tensors.empty(), CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
            "an operation graph of other than operations");
    for (const Tensor& tensor : each->tensors) add_tensor(*graph, tensor);
    graph->operations.push_back(each->operation);
  }
  require(!graph->operations.empty(), CUDNN_STATUS_BAD_PARAM, "an operation graph without operations");
  const auto convolutions = std::count_if(graph->operations.begin(), graph->operations.end(),
                                          [](const Operation& each) { return each.is_convolution(); });
  require(convolutions <= 1, CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "more than one convolution in a graph");
  sort_operations(*graph);
  require(!convolutions || graph->operations.front().is_convolution(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
          "pointwise operations before a convolution are not emulated");
  d.graph = graph;
}

void finalize_engine(Descriptor& d) {
  d.graph = d.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).graph;
  d.engine = engine(d.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)).index;
}

void finalize_engine_config(Descriptor& d) {
  require(!d.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES), CUDNN_STATUS_NOT_SUPPORTED, "setting knobs is not emulated");
  const Descriptor& made = d.part(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  d.graph = made.graph;
  d.engine = made.engine;
}

void finalize_knob_choice(Descriptor& d) {
  const auto knob = d.choice<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE);
  require(knob == CUDNN_KNOB_TYPE_KERNEL_CFG, CUDNN_STATUS_NOT_SUPPORTED, "the engines have no such knob");
  d.knob_value = d.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
}

void finalize_heuristics(Descriptor& d) {
  d.graph = d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).graph;
  d.found = proposals(*d.graph, d.choice<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE));
}

void finalize_plan(Descriptor& d) {
  if (d.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
    PlanFromText plan = read_plan(d.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION));
    d.graph = std::make_shared<const Graph>(std::move(plan.graph));
    d.engine = engine(plan.engine).index;
  } else {
    const Descriptor& config = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    d.graph = config.graph;
    d.engine = config.engine;
  }
  check_support(engine(d.engine), *d.graph);
}

void finalize_variant_pack(Descriptor& d) {
  require(
      d.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() == d.pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size(),
      CUDNN_STATUS_BAD_PARAM, "a variant pack needs as many pointers as unique ids");
}

void finalize_device(Descriptor& d) {
  require(d.has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) || d.has(CUDNN_ATTR_DEVICEPROP_DEVICE_ID) ||
              d.has(CUDNN_ATTR_DEVICEPROP_HANDLE),
          CUDNN_STATUS_BAD_PARAM, "a device description needs a description, a device id or a handle");
}

bool get_computed(const Descriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t room, std::int64_t* count, void* values) {
  const auto typed = [&](cudnnBackendAttributeType_t wanted) {
    require(type == wanted, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            "attribute " + std::to_string(name) + " has type " + std::to_string(wanted));
  };
  const auto text = [&](const std::string& content) {
    typed(CUDNN_TYPE_CHAR);
    return give(std::vector<char>(content.begin(), content.end()), room, count, values);
  };
  switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      typed(CUDNN_TYPE_INT64);
      return give(std::vector{engine_count()}, room, count, values);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: typed(CUDNN_TYPE_BACKEND_DESCRIPTOR); return get_found(d, room, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      typed(CUDNN_TYPE_BACKEND_DESCRIPTOR);
      fill(values, 0, make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, d, d.engine));
      if (count) *count = 1;
      return true;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      typed(CUDNN_TYPE_BACKEND_DESCRIPTOR);
      return get_knobs(d, room, count, values);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      typed(CUDNN_TYPE_KNOB_TYPE);
      return give(std::vector{CUDNN_KNOB_TYPE_KERNEL_CFG}, room, count, values);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      typed(CUDNN_TYPE_INT64);
      return give(std::vector{d.knob_value}, room, count, values);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      typed(CUDNN_TYPE_INT64);
      return give(std::vector{d.engine}, room, count, values);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      typed(CUDNN_TYPE_NUMERICAL_NOTE);
      return give(numerical_notes(engine(d.engine)), room, count, values);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      typed(CUDNN_TYPE_BEHAVIOR_NOTE);
      return give(behavior_notes(engine(d.engine)), room, count, values);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      typed(CUDNN_TYPE_INT64);
      return give(std::vector{workspace_of(engine(d.engine), *d.graph)}, room, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: return text(plan_text(*d.graph, d.engine));
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
      if (d.has(name)) return false;
      return text(R"({"deviceName":"emulated device","deviceVer":900,"multiProcessorCount":132})");
    default: return false;
  }
}

}  // namespace mrmf::emulated::dnn
