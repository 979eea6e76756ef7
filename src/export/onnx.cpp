#include "src/export/onnx.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/export/exported_layers.hpp"
#include "src/export/onnx_graph.hpp"

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

}  // namespace mrmf
