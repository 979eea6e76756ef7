#include "src/export/exported_model.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/files/limits.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry.hpp"

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

using Json = nlohmann::ordered_json;

Json window_of(const ConvGeometry& g, const Shape& in, bool transposed) {
  Json window{{"stride", used_axes(g.stride, in.axes)},
              {"dilation", used_axes(g.dilation, in.axes)},
              {"pad_before", used_axes(g.pad_before, in.axes)},
              {"pad_after", used_axes(g.pad_after, in.axes)}};
  if (transposed) window["out"] = used_axes(g.in, in.axes);
  return window;
}

// Its settings, with every size in numbers.
Json settings_of(const LayerEntry& entry) {
  const Shape& in = entry.input;
  const LayerSpec& spec = entry.spec;
  switch (entry.kind) {
    case LayerKind::conv: return window_of(conv_geometry(in, spec), in, false);
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
    case LayerKind::conv_transpose: return window_of(conv_transpose_geometry(in, spec), in, true);
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
    default: return Json::object();
  }
}

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
    layer.update(settings_of(entry));
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

}  // namespace mrmf
