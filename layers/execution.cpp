#include "layers/execution.hpp"

#include <algorithm>

#include "layers/layer.hpp"

namespace mrmf {
namespace {

bool is_kind(const std::vector<LayerSpec>& specs, std::size_t i, LayerKind kind) {
  return i < specs.size() && specs[i].kind == kind;
}

/// A fused layer and the number of layers in the list that it replaces.
struct Fused {
  std::unique_ptr<Layer> layer;
  std::size_t count = 0;
};

// conv, max_pool and relu in a row.
Fused conv_pool_relu(Backend& backend, const Shape& in, const std::vector<LayerSpec>& specs, std::size_t i) {
  if (!is_kind(specs, i, LayerKind::conv) || !is_kind(specs, i + 1, LayerKind::max_pool) ||
      !is_kind(specs, i + 2, LayerKind::relu))
    return {};
  return {make_conv_pool_relu(backend, in, specs[i], specs[i + 1]), 3};
}

// batch_norm, relu or leaky_relu, and average_pool if it follows and fits.
Fused norm_relu_pool(Backend& backend, const Shape& in, const std::vector<LayerSpec>& specs, std::size_t i) {
  if (!is_kind(specs, i, LayerKind::batch_norm) ||
      !(is_kind(specs, i + 1, LayerKind::relu) || is_kind(specs, i + 1, LayerKind::leaky_relu)))
    return {};
  if (is_kind(specs, i + 2, LayerKind::average_pool))
    if (auto layer = make_norm_relu_pool(backend, in, {specs[i], specs[i + 1], specs[i + 2]}))
      return {std::move(layer), 3};
  return {make_norm_relu_pool(backend, in, {specs[i], specs[i + 1], std::nullopt}), 2};
}

// batch_norm and conv at the input. Further down the fused layer would have to give a dx.
Fused norm_conv(Backend& backend, const Shape& in, const std::vector<LayerSpec>& specs, std::size_t i) {
  if (i > 0 || in.axes == 0 || !is_kind(specs, 0, LayerKind::batch_norm) || !is_kind(specs, 1, LayerKind::conv))
    return {};
  return {make_norm_conv(backend, in, specs[0], specs[1]), 2};
}

/// The backend's fused layer for the layers from i on, if any.
Fused offer(Backend& backend, const Shape& in, const std::vector<LayerSpec>& specs, std::size_t i) {
  for (const auto& find : {conv_pool_relu, norm_relu_pool, norm_conv})
    if (Fused fused = find(backend, in, specs, i); fused.layer) return fused;
  return {};
}

void place_outputs(Backend& backend, Execution& execution) {
  Place output;
  for (Unit& unit : execution.units) {
    unit.cache = {execution.cache, unit.run->footprint().cache};
    execution.cache = aligned(unit.cache.end());
    if (!unit.in_place) {
      output = {execution.activations, backend.activation_floats(unit.out)};
      execution.activations = aligned(output.end());
    }
    unit.output = output;
    execution.widest = std::max(execution.widest, backend.activation_floats(unit.out));
  }
}

}  // namespace

Execution plan_execution(Backend& backend, const Network& network, const ModelSettings& settings) {
  const std::vector<LayerSpec>& specs = settings.network.layers;
  Execution execution;
  bool read_later = false;  // some backward reads the current output
  for (std::size_t i = 0; i < network.size();) {
    const Entry& entry = network.entry(i);
    Unit unit;
    unit.first = i;
    unit.last = i + 1;
    unit.run = entry.layer.get();
    if (settings.fuse) {
      if (Fused fused = offer(backend, entry.input, specs, i); fused.layer) {
        unit.last = i + fused.count;
        unit.run = fused.layer.get();
        execution.fused.push_back(std::move(fused.layer));
      }
    }
    unit.out = unit.run->output();
    // The caller owns x, so the first unit may not write over it. No unit may write over an output that is read later.
    const Footprint footprint = unit.run->footprint();
    unit.in_place = !execution.units.empty() && (footprint.identity || (footprint.in_place && !read_later));
    read_later = footprint.reads_output || (unit.in_place && footprint.identity && read_later);
    i = unit.last;
    execution.units.push_back(unit);
  }
  place_outputs(backend, execution);
  return execution;
}

Index Execution::floats(const Network& network, int moments) const {
  return (2 + moments) * network.params_size() + network.state_size() + cache + activations + 2 * widest;
}

}  // namespace mrmf
