// ONNX export: a trained network as a graph, and the graph in ONNX's own messages. The only file that sees ONNX and
// protobuf.
#include "src/export/onnx.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>  // with ONNX_ML (CMakeLists.txt), as Debian builds it

#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"

namespace mrmf {
OnnxGraph::Value channels_last(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted) {
  std::vector<Index> order{0};
  for (Index a = 0; a < axes; ++a) order.push_back(2 + a);
  order.push_back(1);
  return graph.add("Transpose", {value}, wanted, {{"perm", order}});
}

OnnxGraph::Value channels_first(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted) {
  std::vector<Index> order{0, 1 + Index{axes}};
  for (Index a = 0; a < axes; ++a) order.push_back(1 + a);
  return graph.add("Transpose", {value}, wanted, {{"perm", order}});
}

std::vector<Index> row_shape(const Shape& shape, bool last) {
  std::vector<Index> sizes = used_axes(shape.spatial, shape.axes);
  sizes.insert(last ? sizes.end() : sizes.begin(), shape.channels);
  return sizes;
}

namespace {

using Value = OnnxGraph::Value;

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Maps are computed in double: log(1 + x) and exp(x) - 1 lose small x in float32, and large means the digits behind
// them.
Value mapped(OnnxGraph& graph, const Value& from, const ChannelMap& map, const std::string& name) {
  if (map.empty()) return from;
  Value value = graph.cast(from, true, name + ".wide");
  if (map.log1p) {
    value = graph.add("Add", {value, graph.doubles(name + ".one", {1})}, name + ".Add");
    value = graph.add("Log", {value}, name + ".Log");
  }
  if (!map.scale.empty()) {
    value = graph.add("Mul", {value, graph.doubles(name + ".scale", widened(map.scale))}, name + ".Mul");
    value = graph.add("Add", {value, graph.doubles(name + ".shift", widened(map.shift))}, name + ".Shift");
  }
  return graph.cast(value, false, name);
}

Value unmapped(OnnxGraph& graph, const Value& from, const ChannelMap& map, const std::string& name) {
  if (map.empty()) return from;
  Value value = graph.cast(from, true, name + ".wide");
  if (!map.scale.empty()) {
    value = graph.add("Sub", {value, graph.doubles(name + ".shift", widened(map.shift))}, name + ".Shift");
    value = graph.add("Div", {value, graph.doubles(name + ".scale", widened(map.scale))}, name + ".Div");
  }
  if (map.log1p) {
    value = graph.add("Exp", {value}, name + ".Exp");
    value = graph.add("Sub", {value, graph.doubles(name + ".one", {1})}, name + ".Sub");
  }
  return graph.cast(value, false, name);
}

// What is missing of some samples with channels last: a tensor of true and false.
struct Missing {
  OnnxGraph& graph;
  Value samples;

  Value each() const { return graph.add("IsNaN", {samples}, "missing"); }
  // 1 where all channels are there, 0 where one is missing.
  Value mask(const Value& each) const {
    const Value any = graph.add("ReduceMax", {graph.cast(each, false, "missing_numbers")}, "missing_any",
                                {{"axes", std::vector<Index>{-1}}, {"keepdims", Index{1}}});
    return graph.add("Sub", {graph.constant("mask_one", {1}, std::vector<float>{1}), any}, "mask");
  }
};

// In the network's units, with missing numbers filled, and the mask behind them.
Value filled(OnnxGraph& graph, const Value& samples, const ChannelMap& map) {
  if (map.fill.empty()) return mapped(graph, samples, map, "normalised_samples");
  const Missing missing{graph, samples};
  const Value each = missing.each();
  ChannelMap units = map;
  units.fill.clear();
  const Value value = mapped(graph, samples, units, "normalised_samples");
  const Value fill = graph.constant("fill", {std::ssize(map.fill)}, map.fill);
  const Value whole = graph.add("Where", {each, fill, value}, "filled_samples");
  if (!map.mask) return whole;
  return graph.add("Concat", {whole, missing.mask(each)}, "samples_and_mask", {{"axis", Index{-1}}});
}

// Samples as the layers read them: channels first. A sample that is reinterpreted is channels first as it stands.
Value network_input(OnnxGraph& graph, const ExportedModel& model) {
  const Shape in = model.network.input();
  Shape of_file = in;
  if (model.samples.mask) --of_file.channels;
  const Value samples = graph.input("samples", row_shape(of_file, true));
  const Value value = filled(graph, samples, model.samples);
  if (model.layout == SampleLayout::reinterpret) {
    std::vector<Index> shape = row_shape(in, false);
    shape.insert(shape.begin(), 0);
    return graph.add("Reshape", {value, graph.sizes("reinterpreted_shape", shape)}, "reinterpreted_samples");
  }
  return in.axes == 0 ? value : channels_first(graph, value, in.axes, "channels_first");
}

std::string text_of(const ExportedModel& model) {
  const auto fact = [&](const std::string& name) {
    const auto found = model.facts.find(name);
    return found == model.facts.end() ? std::string("?") : found->second;
  };
  Shape in = model.network.input();
  if (model.samples.mask) --in.channels;  // made in the graph
  return fmt::format(
      "A network trained by {} (run {}, resolution {}). Input 'samples': float32, (batch, positions..., channels), "
      "here {} a sample{}. Output 'prediction': the same order, {} a sample{}.",
      fact("program"), fact("run"), fact("resolution"), to_string(in),
      model.samples.fill.empty() ? "" : "; NaN is a missing number", to_string(model.network.output()),
      model.task == Task::regression ? "" : "; 'probability': softmax or sigmoid of it");
}

}  // namespace

std::string onnx_bytes(const ExportedModel& model) {
  require_sayable(model.network);
  OnnxGraph graph;
  std::vector<Value> values{network_input(graph, model)};  // by the numbers of the wiring
  for (std::size_t i = 0; i < model.network.size(); ++i) {
    std::vector<Value> inputs;
    for (const std::size_t number : model.network.wiring()[i]) inputs.push_back(values[number]);
    values.push_back(add_layer(graph, model, model.network.entry(i), inputs));
  }
  const Shape out = model.network.output();
  Value last = values.back();
  if (out.axes > 0) last = channels_last(graph, last, out.axes, "channels_last");
  last = unmapped(graph, last, model.labels, "original_labels");
  const Value prediction = graph.add("Identity", {last}, "prediction");
  graph.output(prediction, row_shape(out, true));
  if (model.task == Task::classes)
    graph.output(graph.add("Softmax", {prediction}, "probability", {{"axis", Index{-1}}}), row_shape(out, true));
  else if (model.task == Task::binary)
    graph.output(graph.add("Sigmoid", {prediction}, "probability"), row_shape(out, true));
  return graph.bytes("mrmf", text_of(model), model.facts);
}

namespace {

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - (std::size_t{1} << 20);  // protobuf's, less the structure

static_assert(std::endian::native == std::endian::little, "ONNX's raw data are little-endian");

void describe(onnx::ValueInfoProto& value, const std::string& name, const std::vector<Index>& row) {
  value.set_name(name);
  onnx::TypeProto_Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const Index size : row) type.mutable_shape()->add_dim()->set_dim_value(size);
}

struct SetAttribute {
  onnx::AttributeProto& to;
  void operator()(Index value) const { to.set_type(onnx::AttributeProto::INT), to.set_i(value); }
  void operator()(float value) const { to.set_type(onnx::AttributeProto::FLOAT), to.set_f(value); }
  void operator()(const std::string& value) const { to.set_type(onnx::AttributeProto::STRING), to.set_s(value); }
  void operator()(const std::vector<Index>& values) const {
    to.set_type(onnx::AttributeProto::INTS);
    for (const Index value : values) to.add_ints(value);
  }
};

}  // namespace

struct OnnxGraph::State {
  onnx::ModelProto model;
  std::set<std::string> names;
  std::size_t constants = 0;  // bytes

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  onnx::TensorProto& tensor(const std::string& name, const std::vector<Index>& shape, int type) {
    onnx::TensorProto& made = *graph().add_initializer();
    made.set_name(name);
    made.set_data_type(type);
    for (const Index size : shape) made.add_dims(size);
    return made;
  }
  void fill(onnx::TensorProto& tensor, const void* values, std::size_t bytes) {
    constants += bytes;
    require_onnx_size(constants);
    tensor.mutable_raw_data()->assign(static_cast<const char*>(values), bytes);
  }
};

OnnxGraph::OnnxGraph() : state_(std::make_unique<State>()) {}
OnnxGraph::~OnnxGraph() = default;

void require_onnx_size(std::size_t bytes) {
  if (bytes > kMostBytes)
    throw ConfigError(
        fmt::format("the parameters take {:.1f} GB, and an ONNX file holds at most 2.1 GB; write them with "
                    "--format safetensors",
                    static_cast<double>(bytes) / 1e9));
}

std::string OnnxGraph::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !state_->names.insert(name).second; ++number) name = fmt::format("{}_{}", wanted, number);
  return name;
}

OnnxGraph::Value OnnxGraph::input(const std::string& name, const std::vector<Index>& row) {
  const Value value = unique(name);
  describe(*state_->graph().add_input(), value, row);
  return value;
}

void OnnxGraph::output(const Value& value, const std::vector<Index>& row) {
  describe(*state_->graph().add_output(), value, row);
}

OnnxGraph::Value OnnxGraph::add(const std::string& op, const std::vector<Value>& inputs, const std::string& wanted,
                                const Attributes& attributes) {
  onnx::NodeProto& node = *state_->graph().add_node();
  const Value value = unique(wanted);
  node.set_op_type(op);
  node.set_name(value);
  for (const Value& input : inputs) node.add_input(input);
  node.add_output(value);
  for (const auto& [name, content] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit(SetAttribute{attribute}, content);
  }
  return value;
}

OnnxGraph::Value OnnxGraph::constant(const std::string& wanted, const std::vector<Index>& shape, ConstSpan values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, shape, onnx::TensorProto::FLOAT), values.data(), values.size_bytes());
  return value;
}

OnnxGraph::Value OnnxGraph::sizes(const std::string& wanted, const std::vector<Index>& values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, {std::ssize(values)}, onnx::TensorProto::INT64), values.data(),
               values.size() * sizeof(Index));
  return value;
}

OnnxGraph::Value OnnxGraph::doubles(const std::string& wanted, const std::vector<double>& values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, {std::ssize(values)}, onnx::TensorProto::DOUBLE), values.data(),
               values.size() * sizeof(double));
  return value;
}

OnnxGraph::Value OnnxGraph::cast(const Value& value, bool to_double, const std::string& wanted) {
  return add("Cast", {value}, wanted,
             {{"to", Index{to_double ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT}}});
}

std::string OnnxGraph::bytes(const std::string& name, const std::string& text,
                             const std::map<std::string, std::string>& facts) {
  onnx::ModelProto& model = state_->model;
  constexpr int ir_version = 8;  // the one that came with the opset
  model.set_ir_version(ir_version);
  model.set_producer_name("mrmf");
  model.set_producer_version(kVersion);
  model.set_doc_string(text);
  model.mutable_graph()->set_name(name);
  model.mutable_graph()->set_doc_string(text);
  model.add_opset_import()->set_version(kOnnxOpset);
  for (const auto& [key, value] : facts) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  std::string bytes;
  MRMF_CHECK(model.SerializeToString(&bytes), "an ONNX model that protobuf does not write");
  return bytes;
}

}  // namespace mrmf
