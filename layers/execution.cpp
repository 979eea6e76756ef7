#include "layers/execution.hpp"

#include <algorithm>
#include <span>

#include "layers/layer.hpp"

namespace mrmf {
namespace {

/// Layers one after the other, each the only reader of the one before it.
using Run = std::span<const Entry>;

bool is_kind(Run run, std::size_t i, LayerKind kind) { return i < run.size() && run[i].kind == kind; }

/// A fused layer and the number of layers in the list that it replaces.
struct Fused {
  std::unique_ptr<Layer> layer;
  std::size_t count = 0;
};

// conv, max_pool and relu in a row.
Fused conv_pool_relu(Backend& backend, Run run) {
  if (!is_kind(run, 0, LayerKind::conv) || !is_kind(run, 1, LayerKind::max_pool) || !is_kind(run, 2, LayerKind::relu))
    return {};
  return {make_conv_pool_relu(backend, run[0].input, run[0].spec, run[1].spec), 3};
}

// batch_norm, relu or leaky_relu, and average_pool if it follows and fits.
Fused norm_relu_pool(Backend& backend, Run run) {
  if (!is_kind(run, 0, LayerKind::batch_norm) ||
      !(is_kind(run, 1, LayerKind::relu) || is_kind(run, 1, LayerKind::leaky_relu)))
    return {};
  const Shape& in = run[0].input;
  if (is_kind(run, 2, LayerKind::average_pool))
    if (auto layer = make_norm_relu_pool(backend, in, {run[0].spec, run[1].spec, run[2].spec}))
      return {std::move(layer), 3};
  return {make_norm_relu_pool(backend, in, {run[0].spec, run[1].spec, std::nullopt}), 2};
}

// batch_norm and conv at the input. Further down the fused layer would have to give a dx.
Fused norm_conv(Backend& backend, Run run) {
  if (run[0].input.axes == 0 || !is_kind(run, 0, LayerKind::batch_norm) || !is_kind(run, 1, LayerKind::conv)) return {};
  return {make_norm_conv(backend, run[0].input, run[0].spec, run[1].spec), 2};
}

/// The backend's fused layer for the first layers of the run, if any.
Fused offer(Backend& backend, Run run, bool first) {
  for (const auto& find : {conv_pool_relu, norm_relu_pool})
    if (Fused fused = find(backend, run); fused.layer) return fused;
  return first ? norm_conv(backend, run) : Fused{};
}

/// Layers from i on of which each but the last is read by the next alone, which reads nothing else.
Run run_from(const Network& network, std::size_t i) {
  const Wiring& wiring = network.wiring();
  const auto only_reader = [&](std::size_t next) {  // of the layer before it
    std::size_t readers = 0;
    for (std::size_t r = next; r < wiring.size(); ++r)
      readers += static_cast<std::size_t>(std::ranges::count(wiring[r], next));
    return readers == 1 && wiring[next] == std::vector{next};
  };
  std::size_t end = i + 1;
  while (end < network.size() && only_reader(end)) ++end;
  return Run(network.entries()).subspan(i, end - i);
}

std::vector<Unit> make_units(Backend& backend, const Network& network, bool fuse, Execution& execution) {
  std::vector<Unit> units;
  std::vector<std::size_t> unit_output(network.size() + 1, 0);  // a unit's output by that of its last layer
  for (std::size_t i = 0; i < network.size();) {
    const Entry& entry = network.entry(i);
    Unit unit;
    unit.first = i;
    unit.last = i + 1;
    unit.run = entry.layer.get();
    unit.join = entry.join;
    const bool first = network.wiring()[i] == std::vector<std::size_t>{0};
    if (Fused fused = fuse ? offer(backend, run_from(network, i), first) : Fused{}; fused.layer) {
      unit.last = i + fused.count;
      unit.run = fused.layer.get();
      execution.fused.push_back(std::move(fused.layer));
    }
    for (const std::size_t number : network.wiring()[i]) unit.reads.push_back(unit_output[number]);
    unit.out = unit.run->output();
    i = unit.last;
    units.push_back(std::move(unit));
    unit_output[i] = units.size();
  }
  return units;
}

}  // namespace

Execution plan_execution(Backend& backend, const Network& network, const ModelSettings& settings) {
  Execution execution;
  execution.units = make_units(backend, network, settings.fuse, execution);
  std::vector<UnitFacts> facts;
  for (Unit& unit : execution.units) {
    const Footprint footprint = unit.run->footprint();
    unit.cache = {execution.cache, footprint.cache};
    execution.cache = aligned(unit.cache.end());
    facts.push_back({.reads = unit.reads,
                     .floats = backend.activation_floats(unit.out),
                     .in_place = footprint.in_place,
                     .identity = footprint.identity,
                     .reads_output = footprint.reads_output,
                     .reads_input = footprint.reads_input,
                     .dx_is_dy = footprint.dx_is_dy,
                     .slices = footprint.slices,
                     .parts = footprint.parts});
  }
  ArenaPlan plan = plan_arena(facts);
  for (std::size_t u = 0; u < execution.units.size(); ++u) execution.units[u].memory = std::move(plan.units[u]);
  execution.activations = plan.floats;
  execution.separate = plan.separate;
  return execution;
}

Index Execution::floats(const Network& network, int moments) const {
  return (2 + moments) * network.params_size() + network.state_size() + cache + activations;
}

}  // namespace mrmf
