#include "layers/execution.hpp"

#include <algorithm>

#include "layers/layers.hpp"

namespace mrmf {
namespace {

// conv, max_pool, relu in a row: the pattern backends offer a fused operation for.
bool is_conv_pool_relu(const std::vector<LayerSpec>& specs, std::size_t i) {
  return i + 2 < specs.size() && specs[i].kind == LayerKind::conv && specs[i + 1].kind == LayerKind::max_pool &&
         specs[i + 2].kind == LayerKind::relu;
}

void place_outputs(Execution& execution) {
  Place output;
  for (Unit& unit : execution.units) {
    unit.cache = {execution.cache, unit.run->footprint().cache};
    execution.cache = aligned(unit.cache.end());
    if (!unit.in_place) {
      output = {execution.activations, unit.out.count()};
      execution.activations = aligned(output.end());
    }
    unit.output = output;
    execution.widest = std::max(execution.widest, unit.out.count());
  }
}

}  // namespace

Execution plan_execution(Backend& backend, const Network& network, const ModelSettings& settings) {
  const std::vector<LayerSpec>& specs = settings.network.layers;
  Execution execution;
  bool read_later = false;  // some backward reads the output of the units so far
  for (std::size_t i = 0; i < network.size();) {
    const Entry& entry = network.entry(i);
    Unit unit;
    unit.first = i;
    unit.last = i + 1;
    unit.run = entry.layer.get();
    if (settings.fuse && is_conv_pool_relu(specs, i)) {
      if (auto fused = make_conv_pool_relu(backend, entry.input, specs[i], specs[i + 1])) {
        unit.last = i + 3;
        unit.run = fused.get();
        execution.fused.push_back(std::move(fused));
      }
    }
    unit.out = unit.run->output();
    // The caller owns x, so the first unit may not write over it; nor may a unit over an output still to be read.
    const Footprint footprint = unit.run->footprint();
    unit.in_place = !execution.units.empty() && (footprint.identity || (footprint.in_place && !read_later));
    read_later = footprint.reads_output || (unit.in_place && footprint.identity && read_later);
    i = unit.last;
    execution.units.push_back(unit);
  }
  place_outputs(execution);
  return execution;
}

Index Execution::floats(const Network& network, int moments) const {
  return (2 + moments) * network.params_size() + network.state_size() + cache + activations + 2 * widest;
}

}  // namespace mrmf
