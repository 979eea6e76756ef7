#include "layers/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

Index total(const std::vector<NamedTensor>& parts) {
  Index sum = 0;
  for (const NamedTensor& part : parts) sum += part.count();
  return sum;
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
  std::vector<LayerSpec> layers = settings.layers;
  resolve_axes(layers, input_.axes);
  wiring_ = connect(layers);
  leave_biases_to_norms(layers, wiring_);
  for (const LayerSpec& spec : layers) add(backend, spec);
  const std::vector<bool> top = top_layers(layers, wiring_, settings.bottom);
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].top = top[i];
}

void Network::add(Backend& backend, const LayerSpec& spec) {
  std::vector<Shape> in;
  for (const std::size_t number : wiring_[entries_.size()]) in.push_back(output_numbered(number));
  for (const Shape& shape : in) require_countable(shape, spec);
  Entry entry;
  entry.name = spec.name;
  entry.kind = spec.kind;
  entry.spec = spec;
  entry.input = in[0];
  if (in.size() > 1) {
    std::unique_ptr<Join> join = make_join(backend, in, spec);
    entry.join = join.get();
    entry.layer = std::move(join);
  } else {
    entry.layer = make_layer(backend, in[0], spec, entries_.size());
  }
  entry.footprint = entry.layer->footprint();
  entry.params = {params_size_, total(entry.footprint.params)};
  entry.state = {state_size_, total(entry.footprint.state)};
  params_size_ = aligned(entry.params.end());
  state_size_ = aligned(entry.state.end());
  entries_.push_back(std::move(entry));
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
