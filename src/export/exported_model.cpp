#include "src/export/exported_model.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/export/exported_layers.hpp"

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

}  // namespace mrmf
