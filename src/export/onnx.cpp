#include "src/export/onnx.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/errors.hpp"
#include "layers/geometry.hpp"
#include "src/export/onnx_graph.hpp"

namespace mrmf {
namespace {

using Value = OnnxGraph::Value;
using Attributes = OnnxGraph::Attributes;

std::vector<Index> joined(std::vector<Index> first, const std::vector<Index>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// A layer under construction.
struct Making {
  OnnxGraph& graph;
  const ExportedModel& model;
  const LayerEntry& entry;
  const std::vector<Value>& inputs;

  int axes() const { return entry.input.axes; }
  LayerTensor part(std::size_t i) const { return tensors_of(model, entry)[i]; }
  std::string named(const std::string& what) const { return entry.name + "." + what; }
  /// A node that gives the layer's output.
  Value last(const std::string& op, const std::vector<Value>& from, const Attributes& attributes = {}) const {
    return graph.add(op, from, "/" + entry.name, attributes);
  }
  Value between(const std::string& op, const std::vector<Value>& from, const Attributes& attributes = {}) const {
    return graph.add(op, from, "/" + entry.name + "/" + op, attributes);
  }
  Value part_as_is(std::size_t i) const {
    const LayerTensor p = part(i);
    return graph.constant(named(p.name), p.shape, p.values);
  }
  Value number(const std::string& what, float value) const { return graph.constant(named(what), {}, {&value, 1}); }
};

/// Weights (a, kernel..., b) as (a, b, kernel...): what ONNX has of a convolution, and of a transposed one.
Value weights(const Making& m) {
  const LayerTensor p = m.part(0);
  const Index outer = p.shape.front(), inner = p.shape.back();
  const Index taps = std::ssize(p.values) / (outer * inner);
  std::vector<float> turned(p.values.size());
  for (Index o = 0; o < outer; ++o)
    for (Index t = 0; t < taps; ++t)
      for (Index i = 0; i < inner; ++i)
        turned[static_cast<std::size_t>((o * inner + i) * taps + t)] =
            p.values[static_cast<std::size_t>((o * taps + t) * inner + i)];
  std::vector<Index> shape{outer, inner};
  shape.insert(shape.end(), p.shape.begin() + 1, p.shape.end() - 1);
  return m.graph.constant(m.named(p.name), shape, turned);
}

Attributes window(const ConvGeometry& g, int axes) {
  return {{"kernel_shape", used_axes(g.kernel, axes)},
          {"strides", used_axes(g.stride, axes)},
          {"dilations", used_axes(g.dilation, axes)},
          {"pads", joined(used_axes(g.pad_before, axes), used_axes(g.pad_after, axes))}};
}

Value add_conv(const Making& m) {
  return m.last("Conv", {m.inputs[0], weights(m), m.part_as_is(1)},
                window(conv_geometry(m.entry.input, m.entry.spec), m.axes()));
}

Value add_conv_transpose(const Making& m) {
  const ConvGeometry g = conv_transpose_geometry(m.entry.input, m.entry.spec);
  const Extent reach = g.reach();
  Extent behind{};  // positions that no tap reaches; "same" has some where the stride is larger than the kernel
  for (std::size_t a = 0; a < 3; ++a)
    behind[a] = g.in[a] - ((m.entry.input.spatial[a] - 1) * g.stride[a] + reach[a] - g.pad_before[a] - g.pad_after[a]);
  Attributes attributes = window(g, m.axes());
  attributes.emplace_back("output_padding", used_axes(behind, m.axes()));
  return m.last("ConvTranspose", {m.inputs[0], weights(m), m.part_as_is(1)}, attributes);
}

Value add_pool(const Making& m) {
  const PoolGeometry g = pool_geometry(m.entry.input, m.entry.spec);
  return m.last(g.kind == PoolKind::max ? "MaxPool" : "AveragePool", {m.inputs[0]},
                {{"kernel_shape", used_axes(g.window, m.axes())}, {"strides", used_axes(g.stride, m.axes())}});
}

Value add_upsample(const Making& m) {
  const UpsampleGeometry g = upsample_geometry(m.entry.input, m.entry.spec);
  std::vector<float> scales{1, 1};
  for (const Index factor : used_axes(g.factor, m.axes())) scales.push_back(static_cast<float>(factor));
  const bool linear = g.kind == UpsampleKind::linear;
  const Value by = m.graph.constant(m.named("scales"), {std::ssize(scales)}, scales);
  Attributes attributes{{"mode", std::string(linear ? "linear" : "nearest")},
                        {"coordinate_transformation_mode", std::string(linear ? "half_pixel" : "asymmetric")}};
  if (!linear) attributes.emplace_back("nearest_mode", std::string("floor"));
  return m.last("Resize", {m.inputs[0], "", by}, attributes);
}

Value add_batch_norm(const Making& m) {
  return m.last("BatchNormalization", {m.inputs[0], m.part_as_is(0), m.part_as_is(1), m.part_as_is(2), m.part_as_is(3)},
                {{"epsilon", m.entry.spec.epsilon}});
}

/// The opset has no group norm: the groups become the channels of an instance norm.
Value add_group_norm(const Making& m) {
  const Shape& in = m.entry.input;
  const Index groups = m.entry.kind == LayerKind::layer_norm ? 1 : m.entry.spec.groups;
  const std::vector<float> ones(static_cast<std::size_t>(groups), 1.0F), zeros(ones.size(), 0.0F);
  const Value apart = m.between("Reshape", {m.inputs[0], m.graph.sizes(m.named("groups"), {0, groups, -1})});
  const Value normal = m.between(
      "InstanceNormalization",
      {apart, m.graph.constant(m.named("ones"), {groups}, ones), m.graph.constant(m.named("zeros"), {groups}, zeros)},
      {{"epsilon", m.entry.spec.epsilon}});
  const Value together =
      m.between("Reshape", {normal, m.graph.sizes(m.named("shape"), joined({0}, row_shape(in, false)))});
  std::vector<Index> per_channel{in.channels};
  per_channel.resize(1 + static_cast<std::size_t>(in.axes), 1);
  const LayerTensor gamma = m.part(0), beta = m.part(1);
  const Value scaled = m.between("Mul", {together, m.graph.constant(m.named("gamma"), per_channel, gamma.values)});
  return m.last("Add", {scaled, m.graph.constant(m.named("beta"), per_channel, beta.values)});
}

/// mrmf's features are in the order of channels last.
Value add_flatten(const Making& m) {
  if (m.axes() == 0) return m.last("Identity", {m.inputs[0]});
  return m.last("Flatten", {channels_last(m.graph, m.inputs[0], m.axes(), "/" + m.entry.name + "/Transpose")},
                {{"axis", Index{1}}});
}

/// x * normal_share(x), PyTorch's exact form.
Value add_gelu(const Making& m) {
  const Value erf = m.between("Erf", {m.between("Mul", {m.inputs[0], m.number("root_half", 0.70710678F)})});
  const Value share = m.between("Mul", {m.between("Add", {erf, m.number("one", 1.0F)}), m.number("half", 0.5F)});
  return m.last("Mul", {m.inputs[0], share});
}

Value add_tanh(const Making& m) {
  if (m.entry.spec.scale == 1.0F) return m.last("Tanh", {m.inputs[0]});
  return m.last("Mul", {m.between("Tanh", {m.inputs[0]}), m.number("scale", m.entry.spec.scale)});
}

Value add_sum(const Making& m) {
  Value sum = m.inputs[0];
  for (std::size_t i = 1; i < m.inputs.size(); ++i)
    sum = i + 1 < m.inputs.size() ? m.between("Add", {sum, m.inputs[i]}) : m.last("Add", {sum, m.inputs[i]});
  return sum;
}

}  // namespace

Value add_layer(OnnxGraph& graph, const ExportedModel& model, const LayerEntry& entry,
                const std::vector<Value>& inputs) {
  const Making m{graph, model, entry, inputs};
  switch (entry.kind) {
    case LayerKind::conv: return add_conv(m);
    case LayerKind::conv_transpose: return add_conv_transpose(m);
    case LayerKind::locally_connected:
    case LayerKind::rica:
    case LayerKind::l2_pool:
    case LayerKind::local_contrast_norm:
      throw ConfigError(fmt::format("{}: ONNX has no layers of the kind {}; use --format safetensors", entry.name,
                                    to_string(entry.kind)));
    case LayerKind::max_pool:
    case LayerKind::average_pool: return add_pool(m);
    case LayerKind::global_average_pool:
      return m.last("Flatten", {m.between("GlobalAveragePool", {inputs[0]})}, {{"axis", Index{1}}});
    case LayerKind::upsample: return add_upsample(m);
    case LayerKind::batch_norm: return add_batch_norm(m);
    case LayerKind::group_norm:
    case LayerKind::layer_norm: return add_group_norm(m);
    case LayerKind::flatten: return add_flatten(m);
    case LayerKind::dense: return m.last("Gemm", {inputs[0], m.part_as_is(0), m.part_as_is(1)}, {{"transB", Index{1}}});
    case LayerKind::relu: return m.last("Relu", {inputs[0]});
    case LayerKind::leaky_relu: return m.last("LeakyRelu", {inputs[0]}, {{"alpha", entry.spec.slope}});
    case LayerKind::tanh: return add_tanh(m);
    case LayerKind::gelu: return add_gelu(m);
    case LayerKind::silu: return m.last("Mul", {inputs[0], m.between("Sigmoid", {inputs[0]})});
    case LayerKind::softplus: return m.last("Softplus", {inputs[0]});
    case LayerKind::sigmoid: return m.last("Sigmoid", {inputs[0]});
    case LayerKind::dropout: return m.last("Identity", {inputs[0]});
    case LayerKind::add: return add_sum(m);
    case LayerKind::concat: return m.last("Concat", inputs, {{"axis", Index{1}}});
    case LayerKind::slice:
      return m.last("Slice", {inputs[0], graph.sizes(m.named("first"), {entry.spec.first}),
                              graph.sizes(m.named("end"), {entry.spec.first + entry.spec.units}),
                              graph.sizes(m.named("axis"), {1})});
    case LayerKind::stop_gradient: return m.last("Identity", {inputs[0]});
    case LayerKind::labels:
    case LayerKind::noise: break;  // require_sayable() has refused them
  }
  MRMF_CHECK(false, "a layer kind that ONNX export does not know");
}

Value channels_last(OnnxGraph& graph, const Value& value, int axes, const std::string& wanted) {
  std::vector<Index> order{0};
  for (Index a = 0; a < axes; ++a) order.push_back(2 + a);
  order.push_back(1);
  return graph.add("Transpose", {value}, wanted, {{"perm", order}});
}

Value channels_first(OnnxGraph& graph, const Value& value, int axes, const std::string& wanted) {
  std::vector<Index> order{0, 1 + Index{axes}};
  for (Index a = 0; a < axes; ++a) order.push_back(1 + a);
  return graph.add("Transpose", {value}, wanted, {{"perm", order}});
}

std::vector<Index> row_shape(const Shape& shape, bool last) {
  const std::vector<Index> positions = used_axes(shape.spatial, shape.axes);
  return last ? joined(positions, {shape.channels}) : joined({shape.channels}, positions);
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
