// A trained network as exports write it: its numbers and facts, its form as a safetensors file, and of a layer of each
// kind its ONNX nodes and its settings.
#include "src/export/exported_model.hpp"
#include "src/export/onnx.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"

namespace mrmf {

ExportedModel exported(Backend& backend, const Model& model) {
  ExportedModel made{.network = model.network(), .params = {}, .state = {}, .samples = {}, .labels = {}};
  made.params.resize(model.params().size());
  made.state.resize(model.state().size());
  backend.read(model.params(), made.params);
  backend.read(model.state(), made.state);
  return made;
}

std::vector<LayerTensor> tensors_of(const ExportedModel& model, const LayerEntry& entry) {
  std::vector<LayerTensor> parts;
  const auto add = [&](const std::vector<NamedTensor>& all, const ArenaSpan& span, const std::vector<float>& arena) {
    Index first = span.first;
    for (const NamedTensor& part : all) {
      parts.push_back(
          {part.name, part.shape,
           ConstSpan(arena).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(part.count()))});
      first += part.count();
    }
  };
  add(entry.footprint.params, entry.params, model.params);
  add(entry.footprint.state, entry.state, model.state);
  return parts;
}

namespace {

using Json = nlohmann::ordered_json;

Json map_of(const ChannelMap& map) {
  Json json{{"log1p", map.log1p}, {"scale", map.scale}, {"shift", map.shift}};
  if (!map.fill.empty()) json["fill"] = map.fill;
  if (map.mask) json["mask"] = true;
  return json;
}

Json network_of(const ExportedModel& model) {
  const Network& network = model.network;
  Json layers = Json::array();
  for (std::size_t i = 0; i < network.size(); ++i) {
    const LayerEntry& entry = network.entry(i);
    Json layer{{"name", entry.name}, {"type", to_string(entry.kind)}, {"reads", network.wiring()[i]}};
    layer.update(exported_settings(entry));
    layers.push_back(std::move(layer));
  }
  const Shape in = network.input();
  Json sample = used_axes(in.spatial, in.axes);
  sample.push_back(in.channels);
  return {{"sample", sample},
          {"reinterpret", model.layout == SampleLayout::reinterpret},
          {"samples", map_of(model.samples)},
          {"labels", map_of(model.labels)},
          {"layers", layers}};
}

std::string tensor_name(const TensorSpan& tensor) {
  const std::size_t cut = tensor.name.rfind('/');
  return tensor.name.substr(0, cut) + "." + tensor.name.substr(cut + 1);
}

std::vector<TensorSpan> all_tensors(const Network& network) {
  std::vector<TensorSpan> tensors = parameter_spans(network);
  std::ranges::copy(state_spans(network), std::back_inserter(tensors));
  return tensors;
}

// The first few names of a list.
std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

void require_same_tensors(const SafetensorsFile& file, const std::vector<TensorSpan>& tensors) {
  std::vector<std::string> missing, unknown;
  std::map<std::string, bool> wanted;
  for (const TensorSpan& tensor : tensors) {
    wanted[tensor_name(tensor)] = true;
    if (!file.tensors().contains(tensor_name(tensor))) missing.push_back(tensor_name(tensor));
  }
  for (const auto& [name, entry] : file.tensors())
    if (!wanted.contains(name)) unknown.push_back(shown(name));
  const std::string without = missing.empty() ? "" : "lacks " + some(missing);
  const std::string beside = unknown.empty() ? "" : "has " + some(unknown) + " of no layer";
  if (!missing.empty() || !unknown.empty())
    throw DataError(fmt::format("{}: {}{}{}; is the configuration that of its network?", file.path(), without,
                                without.empty() || beside.empty() ? "" : ", and ", beside));
  for (const TensorSpan& tensor : tensors) {
    const std::vector<Index>& shape = file.tensors().at(tensor_name(tensor)).shape;
    if (shape != tensor.shape)
      throw DataError(
          fmt::format("{}: tensor {} has the shape {}, and the configuration's network needs {} (channels "
                      "last)",
                      file.path(), tensor_name(tensor), shape_text(shape), shape_text(tensor.shape)));
  }
}

}  // namespace

std::string safetensors_bytes(const ExportedModel& model) {
  require_sayable(model.network);
  std::vector<SafetensorsTensor> parts;
  for (const TensorSpan& tensor : parameter_spans(model.network))
    parts.push_back({tensor_name(tensor), tensor.shape, model.parameter(tensor)});
  for (const TensorSpan& tensor : state_spans(model.network))
    parts.push_back({tensor_name(tensor), tensor.shape, model.statistic(tensor)});
  std::map<std::string, std::string> metadata = model.facts;
  metadata["network"] = network_of(model).dump();
  return safetensors_bytes(parts, metadata);
}

void read_parameters(Backend& backend, const SafetensorsFile& file, Model& model) {
  require_same_tensors(file, all_tensors(model.network()));
  const auto read = [&](const std::vector<TensorSpan>& tensors, Span arena) {
    for (const TensorSpan& tensor : tensors) {
      std::vector<float> values(tensor.count);
      file.read(tensor_name(tensor), values);
      if (tensor.name.ends_with("/running_variance") && std::ranges::any_of(values, [](float v) { return v < 0; }))
        throw DataError(file.path() + ": tensor " + tensor_name(tensor) + ": a variance below 0");
      backend.write(values, tensor.in(arena));
    }
  };
  read(parameter_spans(model.network()), model.params());
  read(state_spans(model.network()), model.state());
}

void require_sayable(const Network& network) {
  using enum LayerKind;
  constexpr std::array of_positions{conv,    conv_transpose,      max_pool,           average_pool,
                                    l2_pool, global_average_pool, local_contrast_norm};
  for (const LayerEntry& entry : network.entries())
    if (is_source(entry.kind))
      throw ConfigError(
          fmt::format("{}: the network's output depends on {}, which other programs cannot give it; end the "
                      "list with a layer that does not",
                      entry.name, to_string(entry.kind)));
  for (const LayerEntry& entry : network.entries())
    if (entry.input.axes == 0 && std::ranges::find(of_positions, entry.kind) != of_positions.end())
      throw ConfigError(fmt::format("{}: its input {} has no positions, and other programs have no {} of such; {}",
                                    entry.name, to_string(entry.input), to_string(entry.kind),
                                    entry.kind == conv || entry.kind == conv_transpose ? "use dense" : "leave it out"));
}

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

namespace {

Json conv_settings(const ConvGeometry& g, const Shape& in, bool transposed) {
  Json window{{"stride", used_axes(g.stride, in.axes)},
              {"dilation", used_axes(g.dilation, in.axes)},
              {"pad_before", used_axes(g.pad_before, in.axes)},
              {"pad_after", used_axes(g.pad_after, in.axes)}};
  if (transposed) window["out"] = used_axes(g.in, in.axes);
  return window;
}

}  // namespace

Json exported_settings(const LayerEntry& entry) {
  const Shape& in = entry.input;
  const LayerSpec& spec = entry.spec;
  switch (entry.kind) {
    case LayerKind::conv: return conv_settings(conv_geometry(in, spec), in, false);
    case LayerKind::conv_transpose: return conv_settings(conv_transpose_geometry(in, spec), in, true);
    case LayerKind::locally_connected:
    case LayerKind::rica: {
      const ConvGeometry g = locally_connected_geometry(in, spec);
      Json settings{{"kernel", used_axes(g.kernel, in.axes)}, {"stride", used_axes(g.stride, in.axes)}};
      if (entry.kind == LayerKind::rica && output_has_fields(spec)) settings["output"] = "features";
      return settings;
    }
    case LayerKind::l2_pool: {
      const PoolGeometry g = pool_geometry(in, spec);
      return {{"window", used_axes(g.window, in.axes)},
              {"stride", used_axes(g.stride, in.axes)},
              {"pooled", in.channels / entry.output().channels},
              {"epsilon", spec.root_epsilon}};
    }
    case LayerKind::local_contrast_norm: return {{"window", used_axes(spec.window, in.axes)}, {"floor", spec.floor}};
    case LayerKind::max_pool:
    case LayerKind::average_pool: {
      const PoolGeometry g = pool_geometry(in, spec);
      return {{"window", used_axes(g.window, in.axes)}, {"stride", used_axes(g.stride, in.axes)}};
    }
    case LayerKind::upsample:
      return {{"factor", used_axes(spec.window, in.axes)},
              {"mode", spec.mode == UpsampleKind::linear ? "linear" : "nearest"}};
    case LayerKind::batch_norm: return {{"epsilon", spec.epsilon}, {"momentum", spec.momentum}};
    case LayerKind::group_norm: return {{"groups", spec.groups}, {"epsilon", spec.epsilon}};
    case LayerKind::layer_norm: return {{"groups", 1}, {"epsilon", spec.epsilon}};
    case LayerKind::leaky_relu: return {{"slope", spec.slope}};
    case LayerKind::tanh: return {{"scale", spec.scale}};
    case LayerKind::dropout: return {{"rate", spec.rate}};
    case LayerKind::slice: return {{"first", spec.first}, {"channels", spec.units}};
    case LayerKind::global_average_pool:
    case LayerKind::flatten:
    case LayerKind::dense:
    case LayerKind::relu:
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::softplus:
    case LayerKind::sigmoid:
    case LayerKind::add:
    case LayerKind::concat:
    case LayerKind::labels:
    case LayerKind::noise:
    case LayerKind::stop_gradient: break;
  }
  return Json::object();
}

}  // namespace mrmf
