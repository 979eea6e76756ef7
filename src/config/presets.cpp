#include "src/config/presets.hpp"

#include <map>
#include <set>
#include <sstream>

#include "io/files/edit_distance.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

LayerSpec layer(LayerKind kind) {
  LayerSpec spec;
  spec.kind = kind;
  return spec;
}

LayerSpec dropout_layer(float rate) {
  LayerSpec spec = layer(LayerKind::dropout);
  spec.rate = rate;
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
    layers.insert(layers.end(), {dense, layer(LayerKind::relu), dropout_layer(0.05F)});
  }
  dense.units = 19;
  layers.push_back(dense);
  return layers;
}

// The convolution of both CosmoFlow networks: Keras' defaults, so Glorot's weights and zero biases.
LayerSpec cube_conv(Index filters, Index stride) {
  LayerSpec conv = layer(LayerKind::conv);
  conv.units = filters;
  conv.window = {3, 3, 3};
  conv.stride = {stride, stride, stride};
  conv.same_padding = true;
  conv.initialiser = Initialiser::glorot;
  return conv;
}

LayerSpec halving(LayerKind kind) {
  LayerSpec pool = layer(kind);
  pool.window = pool.stride = {2, 2, 2};
  return pool;
}

LayerSpec glorot_dense(Index units) {
  LayerSpec dense = layer(LayerKind::dense);
  dense.units = units;
  dense.initialiser = Initialiser::glorot;
  return dense;
}

// The MRMF paper's CosmoFlow (K. Wang's NU-CUCIS/Multi-resolution-Training, cosmoflow/model/denser_model.py). Counts go
// into a batch norm; dropout comes before ReLU. Keras' moving average keeps 0.99, so 0.01 is the new batch's weight.
std::vector<LayerSpec> cosmoflow() {
  LayerSpec norm = layer(LayerKind::batch_norm);
  norm.momentum = 0.01F;
  norm.epsilon = 1e-3F;
  struct Block {
    Index filters, stride;
    bool pool;
  };
  constexpr Block blocks[] = {{16, 1, true},  {32, 1, true},   {64, 1, true},  {128, 2, true},
                              {256, 1, true}, {256, 1, false}, {256, 1, false}};
  std::vector<LayerSpec> layers{norm};
  for (const Block& block : blocks) {
    layers.insert(layers.end(), {cube_conv(block.filters, block.stride), norm, layer(LayerKind::relu)});
    if (block.pool) layers.push_back(halving(LayerKind::average_pool));
  }
  layers.insert(layers.end(), {layer(LayerKind::flatten), dropout_layer(0.05F)});
  for (const Index units : {2048, 256})
    layers.insert(layers.end(), {glorot_dense(units), dropout_layer(0.05F), layer(LayerKind::relu)});
  layers.push_back(glorot_dense(4));
  return layers;
}

// The MLPerf HPC benchmark's CosmoFlow (mlcommons/hpc, cosmoflow/models/cosmoflow.py). There the activation comes
// before the pool. Leaky ReLU is increasing, so after the pool it is the same function on an eighth of the values.
std::vector<LayerSpec> cosmoflow_mlperf() {
  LayerSpec leaky = layer(LayerKind::leaky_relu);
  leaky.slope = 0.3F;
  std::vector<LayerSpec> layers;
  for (const Index filters : {32, 64, 128, 256, 512})
    layers.insert(layers.end(), {cube_conv(filters, 1), halving(LayerKind::max_pool), leaky});
  layers.push_back(layer(LayerKind::flatten));
  for (const Index units : {128, 64}) layers.insert(layers.end(), {glorot_dense(units), leaky, dropout_layer(0.5F)});
  LayerSpec output = layer(LayerKind::tanh);
  output.scale = 1.2F;
  layers.insert(layers.end(), {glorot_dense(4), output});
  return layers;
}

std::vector<LayerSpec> unet3d(const PresetSizes& sizes) {
  std::vector<LayerSpec> layers = unet_layers(sizes);
  resolve_axes(layers, 3);
  return layers;
}

std::string prefix(LayerKind kind) { return is_pool(kind) ? "pool" : to_string(kind); }

}  // namespace

std::vector<Preset> preset_list() {
  return {
      {"neuron_inverter", "1-D: three convolutions, flat batch norm, six dense layers; 3 probes to 19 conductances",
       "1600x3", 512},
      {"cosmoflow", "3-D: seven convolutions, each with a batch norm, three dense layers; 4 redshifts to 4 parameters",
       "128x128x128x4", 8},
      {"cosmoflow_mlperf", "3-D: five convolutions, three dense layers, 1.2 tanh; 4 redshifts to 4 parameters",
       "128x128x128x4", 8},
      {"unet", "1-D to 3-D: U-Net of 3 levels, 16 channels, group norm; an answer per position", "128x128x1", 8},
      {"unet3d", "3-D: the same for volumes alone", "64x64x64x1", 2},
      {"resnet", "1-D to 3-D: residual network of 4 levels, 16 channels, batch norm; an answer per sample", "64x64x1",
       32},
      {"jag",
       "several parts: autoencoder, discriminator, forward and inverse model; 5 inputs to 15 scalars and 4 images", "5",
       128, true}};
}

std::string preset_sample(const std::string& name) {
  for (const Preset& preset : preset_list())
    if (preset.name == name) return preset.sample;
  return "";
}

Shape parse_sample(const std::string& text) {
  std::vector<Index> sizes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) {
    const bool number = !word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == std::string::npos;
    if (!number || std::stoll(word) < 1)
      throw ConfigError("--sample " + text + ": expected sizes like 1600x3 (positions per axis, then channels)");
    sizes.push_back(std::stoll(word));
  }
  if (sizes.empty() || sizes.size() > 4)
    throw ConfigError("--sample " + text + ": expected one to three axes and the channels, like 1600x3");
  Shape shape;
  shape.channels = sizes.back();
  shape.axes = static_cast<int>(sizes.size()) - 1;
  for (std::size_t a = 0; a + 1 < sizes.size(); ++a) shape.spatial[3 - sizes.size() + 1 + a] = sizes[a];
  return shape;
}

int preset_batch(const std::string& name) {
  for (const Preset& preset : preset_list())
    if (preset.name == name) return preset.batch;
  return 1;
}

std::vector<LayerSpec> preset_layers(const std::string& name, const PresetSizes& sizes) {
  using Make = std::vector<LayerSpec> (*)(const PresetSizes&);
  const std::map<std::string, Make> sized{
      {"unet", unet_layers}, {"unet3d", unet3d}, {"resnet", resnet_layers}, {"jag", jag_layers}};
  if (const auto make = sized.find(name); make != sized.end()) return make->second(sizes);
  const std::map<std::string, std::vector<LayerSpec> (*)()> networks{
      {"neuron_inverter", neuron_inverter}, {"cosmoflow", cosmoflow}, {"cosmoflow_mlperf", cosmoflow_mlperf}};
  const auto network = networks.find(name);
  if (network == networks.end()) {
    std::vector<std::string> names;
    for (const Preset& preset : preset_list()) names.push_back(preset.name);
    throw ConfigError("there is no preset '" + name + "'" + did_you_mean(name, names) + " (mrmf presets lists them)");
  }
  if (sizes != PresetSizes{})
    throw ConfigError("levels, width, outputs and norm are for unet, unet3d and resnet; " + name +
                      " has one size: remove them, or write the network as [[model.layers]]");
  std::vector<LayerSpec> layers = network->second();
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
