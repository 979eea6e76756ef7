#include "layers/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

Index total(const std::vector<Part>& parts) {
  Index sum = 0;
  for (const Part& part : parts) sum += part.count();
  return sum;
}

std::size_t find_cut(const std::vector<Entry>& entries, const std::string& name) {
  const auto is_cut = [&](const Entry& e) { return name.empty() ? e.kind == LayerKind::flatten : e.name == name; };
  auto found = std::ranges::find_if(entries, is_cut);
  if (found == entries.end() && !name.empty())
    throw ConfigError("model.cut = \"" + name +
                      "\" names no layer of the model; the layers are listed by mrmf inspect");
  if (found == entries.end())
    found = std::ranges::find_if(entries, [](const Entry& e) { return e.kind == LayerKind::dense; });
  return static_cast<std::size_t>(found - entries.begin());
}

// Checks sizes from configuration and data before any computation: their product may not fit an Index.
void require_countable(const Shape& in, const LayerSpec& spec) {
  constexpr double most = 0x1p48;
  const auto units = static_cast<double>(std::max<Index>(spec.units, 1)), channels = static_cast<double>(in.channels);
  double window = 1, positions = static_cast<double>(in.n);
  for (std::size_t a = 0; a < 3; ++a) {
    window *= static_cast<double>(spec.window[a]);
    const bool transposed = spec.kind == LayerKind::conv_transpose;
    const auto stride = static_cast<double>(transposed ? std::max<Index>(spec.stride[a], 1) : 1);
    positions *= stride * static_cast<double>(in.spatial[a]) + static_cast<double>(spec.pad_before[a]) +
                 static_cast<double>(spec.pad_after[a]);
    if (transposed) positions += static_cast<double>(spec.window[a]) * static_cast<double>(spec.dilation[a]);
  }
  const double largest = std::max(std::max(units, window) * channels * positions, units * channels * window);
  require(largest <= most, spec,
          fmt::format("on an input of {} rows of {} it comes to {:.3g} numbers, which no machine holds; use a smaller "
                      "batch or sample, or fewer units",
                      in.n, to_string(in), largest));
}

}  // namespace

Network::Network(Backend& backend, const NetworkSettings& settings) : input_(settings.sample.rows(settings.max_rows)) {
  if (settings.layers.empty()) throw ConfigError("the model has no layers; set model.preset or [[model.layers]]");
  Shape shape = input_;
  std::vector<LayerSpec> layers = settings.layers;
  settle_axes(layers, input_.axes);
  for (const LayerSpec& spec : layers) {
    require_countable(shape, spec);
    Entry entry;
    entry.name = spec.name;
    entry.kind = spec.kind;
    entry.input = shape;
    entry.layer = make_layer(backend, shape, spec, entries_.size());
    entry.footprint = entry.layer->footprint();
    entry.params = {params_size_, total(entry.footprint.params)};
    entry.state = {state_size_, total(entry.footprint.state)};
    params_size_ = aligned(entry.params.end());
    state_size_ = aligned(entry.state.end());
    shape = entry.output();
    entries_.push_back(std::move(entry));
  }
  cut_ = find_cut(entries_, settings.cut);
  for (std::size_t i = cut_; i < entries_.size(); ++i) entries_[i].top = true;
}

Index Network::trainable() const {
  Index sum = 0;
  for (const Entry& entry : entries_) sum += entry.params.count;
  return sum;
}

double Network::flop() const {
  double sum = 0;
  for (const Entry& entry : entries_) sum += entry.layer->flop();
  return sum;
}

Index Network::flat_features() const {
  const auto flat = std::ranges::find_if(entries_, [](const Entry& e) { return e.kind == LayerKind::flatten; });
  return flat == entries_.end() ? 0 : flat->output().per_sample();
}

}  // namespace mrmf
