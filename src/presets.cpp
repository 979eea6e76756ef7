#include "src/presets.hpp"

#include <map>
#include <set>

#include "kernels/check.hpp"
#include "kernels/nearest.hpp"

namespace mrmf {
namespace {

LayerSpec layer(LayerKind kind) {
  LayerSpec spec;
  spec.kind = kind;
  return spec;
}

// The Neuron Inverter benchmark's network (J. Balewski et al., PMBS 2022; torch/pmref.hpar.yaml): convolutions,
// a batch norm over the flat vector, five hidden dense layers, 19 conductances. PyTorch's defaults throughout.
std::vector<LayerSpec> neuron_inverter() {
  std::vector<LayerSpec> layers;
  for (const Index filters : {30, 90, 180}) {
    LayerSpec conv = layer(LayerKind::conv);
    conv.units = filters;
    conv.window = {1, 1, 4};
    LayerSpec pool = layer(LayerKind::max_pool);
    pool.window = pool.stride = {1, 1, 4};
    layers.insert(layers.end(), {conv, pool, layer(LayerKind::relu)});
  }
  layers.push_back(layer(LayerKind::flatten));
  layers.push_back(layer(LayerKind::batch_norm));
  LayerSpec dense = layer(LayerKind::dense);
  for (const Index units : {512, 512, 512, 256, 128}) {
    dense.units = units;
    LayerSpec dropout = layer(LayerKind::dropout);
    dropout.rate = 0.05F;
    layers.insert(layers.end(), {dense, layer(LayerKind::relu), dropout});
  }
  dense.units = 19;
  layers.push_back(dense);
  return layers;
}

std::string prefix(LayerKind kind) {
  const bool pool = kind == LayerKind::max_pool || kind == LayerKind::average_pool;
  return pool ? "pool" : to_string(kind);
}

}  // namespace

std::vector<Preset> preset_list() {
  return {{"neuron_inverter", "1-D: three convolutions, flat batch norm, six dense layers; 3 probes to 19 conductances",
           "1600x3"}};
}

std::vector<LayerSpec> preset_layers(const std::string& name) {
  if (name != "neuron_inverter") {
    std::vector<std::string> names;
    for (const Preset& preset : preset_list()) names.push_back(preset.name);
    throw ConfigError("there is no preset '" + name + "'" + did_you_mean(name, names) + " (mrmf presets lists them)");
  }
  std::vector<LayerSpec> layers = neuron_inverter();
  name_layers(layers);
  return layers;
}

void name_layers(std::vector<LayerSpec>& layers) {
  std::map<std::string, int> counts;
  std::set<std::string> names;
  for (LayerSpec& spec : layers) {
    const std::string kind = prefix(spec.kind);
    const int number = ++counts[kind];
    if (spec.name.empty()) {
      const bool single = spec.kind == LayerKind::flatten && number == 1;
      spec.name = single ? kind : kind + std::to_string(number);
    }
    if (!names.insert(spec.name).second) {
      throw ConfigError("two layers of the model are named '" + spec.name + "'; names must be unique");
    }
  }
}

}  // namespace mrmf
