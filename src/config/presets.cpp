// The networks that a configuration can name: the paper's and CosmoFlow's, U-Net and residual networks, and those of
// the preset "jag".
#include "src/config/model_config.hpp"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "src/config/keys.hpp"

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

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : preset_list()) names.push_back(preset.name);
  return names;
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
  if (network == networks.end())
    throw ConfigError("there is no preset '" + name + "'" + did_you_mean(name, preset_names()) +
                      " (mrmf presets lists them)");
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

// The presets with branches: U-Net and residual networks, for one to three axes.

namespace {

using enum LayerKind;

/// A list of layers under construction. Sizes hold along every axis of the data.
class BranchedLayers {
 public:
  explicit BranchedLayers(NormKind norm) : norm_(norm) {}

  LayerSpec& add(LayerKind kind, const std::string& name) {
    LayerSpec& spec = layers_.emplace_back();
    spec.kind = kind;
    spec.name = name;
    return spec;
  }
  /// A convolution that keeps the positions, or keeps every second one.
  LayerSpec& conv(const std::string& name, Index filters, Index kernel, Index stride = 1) {
    LayerSpec& spec = add(LayerKind::conv, name);
    spec.units = filters;
    spec.initialiser = Initialiser::he;
    size(spec, kernel, stride);
    spec.pad_before = spec.pad_after = {0, 0, kernel / 2};
    spec.one_for_all.padding = true;
    return spec;
  }
  void norm(const std::string& name, Index channels) {
    constexpr Index groups = 8;  // as in the benchmark's U-Net
    LayerSpec& spec = add(norm_ == NormKind::group ? group_norm : batch_norm, name);
    if (norm_ == NormKind::group) spec.groups = std::gcd(groups, channels);
  }
  void conv_norm_relu(const std::string& block, const std::string& number, Index filters) {
    conv(block + "_conv" + number, filters, 3);
    norm(block + "_norm" + number, filters);
    add(relu, block + "_relu" + number);
  }
  static void size(LayerSpec& spec, Index window, Index stride) {
    spec.window = {1, 1, window};
    spec.stride = {1, 1, stride};
    spec.one_for_all = {.window = true, .stride = true};
  }
  std::vector<LayerSpec> take() { return std::move(layers_); }

 private:
  NormKind norm_;
  std::vector<LayerSpec> layers_;
};

// Two convolutions per level. The second activation is the level's output: down1_relu2 is the first skip.
void unet_block(BranchedLayers& list, const std::string& name, Index filters) {
  for (const char* const number : {"1", "2"}) list.conv_norm_relu(name, number, filters);
}

// Two convolutions and their input, which gets a convolution of its own where shapes differ.
std::string residual_block(BranchedLayers& list, const std::string& name, const std::string& from, Index filters,
                           bool reshape, Index stride) {
  list.conv(name + "_conv1", filters, 3, stride);
  list.norm(name + "_norm1", filters);
  list.add(relu, name + "_relu1");
  list.conv(name + "_conv2", filters, 3);
  list.norm(name + "_norm2", filters);
  std::string shortcut = from;
  if (reshape) {
    list.conv(name + "_shortcut", filters, 1, stride).from = {from};
    shortcut = name + "_shortcut_norm";
    list.norm(shortcut, filters);
  }
  list.add(LayerKind::add, name + "_add").from = {name + "_norm2", shortcut};
  list.add(relu, name);
  return name;
}

}  // namespace

std::vector<LayerSpec> unet_layers(const PresetSizes& sizes) {
  BranchedLayers list(sizes.norm.value_or(NormKind::group));
  const int levels = sizes.levels.value_or(3);
  const auto filters = [&](int level) { return static_cast<Index>(sizes.width.value_or(16)) << level; };
  for (int level = 0; level < levels; ++level) {
    const std::string number = std::to_string(level + 1);
    unet_block(list, "down" + number, filters(level));
    BranchedLayers::size(list.add(max_pool, "pool" + number), 2, 2);
  }
  unet_block(list, "middle", filters(levels));
  for (int level = levels; level-- > 0;) {
    const std::string number = std::to_string(level + 1);
    LayerSpec& up = list.add(conv_transpose, "up" + number);
    up.units = filters(level);
    BranchedLayers::size(up, 2, 2);
    list.add(concat, "join" + number).from = {"down" + number + "_relu2", "up" + number};
    unet_block(list, "merge" + number, filters(level));
  }
  list.conv("output", sizes.outputs.value_or(1), 1);
  return list.take();
}

std::vector<LayerSpec> resnet_layers(const PresetSizes& sizes) {
  BranchedLayers list(sizes.norm.value_or(NormKind::batch));
  const int levels = sizes.levels.value_or(4);
  const Index width = sizes.width.value_or(16);
  list.conv("stem_conv", width, 3);
  list.norm("stem_norm", width);
  list.add(relu, "stem");
  std::string last = "stem";
  for (int level = 0; level < levels; ++level) {
    for (const int block : {1, 2}) {
      const bool halves = level > 0 && block == 1;
      const std::string name = "block" + std::to_string(level + 1) + (block == 1 ? "a" : "b");
      last = residual_block(list, name, last, width << level, halves, halves ? 2 : 1);
    }
  }
  list.add(global_average_pool, "pool");
  list.add(dense, "output").units = sizes.outputs.value_or(1);
  return list.take();
}

// The preset "jag": networks for surrogates of implosions, after LLNL's macc (Anirudh et al., PNAS 2020) and its form
// in LBANN. An autoencoder makes a code of 20 numbers of what instruments see of a sample, the 15 scalars and all
// pixels. A discriminator keeps codes like normal numbers (Wasserstein autoencoder). Then a forward model predicts the
// code from the drive's 5 inputs, and an inverse model the inputs from the code.

namespace {

using enum LayerKind;

constexpr Index kScalars = 15, kInputs = 5, kCode = 20;
constexpr int kOutputs = 15 + 4 * 64 * 64;

/// A list of layers under construction.
class JagLayers {
 public:
  LayerSpec& add(LayerKind kind, const std::string& name, const std::string& from = "") {
    LayerSpec& spec = layers_.emplace_back();
    spec.kind = kind;
    spec.name = name;
    if (!from.empty()) spec.from = {from};
    return spec;
  }
  void pair(const std::string& name, const std::string& first, const std::string& second) {
    add(concat, name).from = {first, second};
  }
  /// Dense layers with an activation behind each but the last; "name1", "name1_silu", ..., and the last is `name`.
  void chain(const std::string& name, const std::string& from, const std::vector<Index>& units,
             const std::vector<LayerKind>& between) {
    std::string reads = from;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool last = i + 1 == units.size();
      const std::string own = last ? name : fmt::format("{}{}", name, i + 1);
      add(dense, own, reads).units = units[i];
      if (last) return;
      reads = own + "_" + to_string(between[i]);
      add(between[i], reads);
    }
  }
  /// The same layers on another input, with their weights, or frozen copies of them.
  void again(const std::string& name, const std::string& of, const std::string& from, const std::vector<Index>& units,
             const std::vector<LayerKind>& between, int every = 0) {
    const std::size_t first = layers_.size();
    chain(name, from, units, between);
    for (std::size_t i = first; i < layers_.size(); ++i)
      if (layers_[i].kind == dense) {
        layers_[i].weights_of = of + layers_[i].name.substr(name.size());
        layers_[i].every = every;
      }
  }
  void parts_of(const std::string& whole, Index outputs) {
    LayerSpec& scalars = add(slice, whole + "_scalars", whole);
    scalars.units = kScalars;
    LayerSpec& images = add(slice, whole + "_images", whole);
    images.first = kScalars;
    images.units = outputs - kScalars;
  }
  std::vector<LayerSpec> take() { return std::move(layers_); }

 private:
  std::vector<LayerSpec> layers_;
};

LossTerm term(const std::string& name, const std::string& output, const std::string& target, LossKind kind,
              float weight) {
  LossTerm one;
  one.name = name;
  one.output = output;
  one.target = target;
  one.loss = LossSettings::single(kind);
  one.weight = weight;
  return one;
}

LossTerm judgement(const std::string& name, const std::string& output, float value, float weight) {
  LossTerm one = term(name, output, "", LossKind::binary_cross_entropy, weight);
  one.value = value;
  return one;
}

PartConfig part(const std::string& name, std::optional<double> decay = {}) {
  PartConfig one;
  one.name = name;
  one.layers = {name + "*"};
  one.weight_decay = decay;
  return one;
}

}  // namespace

std::vector<LayerSpec> jag_layers(const PresetSizes& sizes) {
  if (sizes.levels || sizes.width || sizes.norm)
    throw ConfigError("levels, width and norm are for unet, unet3d and resnet; of jag only outputs can be set");
  const Index outputs = sizes.outputs.value_or(kOutputs);
  if (outputs <= kScalars)
    throw ConfigError(
        fmt::format("model.outputs is {}, and jag has 15 scalars and at least one pixel: 15 + 4 * 64 * 64 "
                    "for images of 64 x 64",
                    outputs));
  const std::vector<Index> decoder{64, 128, 256, outputs}, critic{128, 64, 1}, forward{32, 256, 1024, kCode},
      inverse{16, 128, 64, kInputs};
  const std::vector<LayerKind> smooth{silu, silu, silu}, kinks{relu, relu, relu};
  JagLayers list;
  list.add(labels, "answer").units = outputs;
  list.parts_of("answer", outputs);
  list.chain("encoder", "answer", {32, 256, 128, kCode}, {silu, tanh, tanh});
  list.chain("decoder", "encoder", decoder, smooth);
  list.parts_of("decoder", outputs);
  // The discriminator sees answers with codes: normal numbers are right, and the encoder's codes are not.
  list.add(noise, "prior").units = kCode;
  list.pair("right", "answer", "prior");
  list.chain("critic", "right", critic, kinks);
  list.add(stop_gradient, "code", "encoder");
  list.pair("wrong", "answer", "code");
  list.again("judge", "critic", "wrong", critic, kinks);
  list.pair("doubtful", "answer", "encoder");
  list.again("frozen", "critic", "doubtful", critic, kinks, 2);
  // From inputs to the code and back, and both in a circle.
  list.chain("inverse", "code", inverse, kinks);
  list.chain("forward", kInput, forward, kinks);
  list.again("circle_inputs", "inverse", "forward", inverse, kinks);
  list.again("circle_code", "forward", "inverse", forward, kinks);
  list.again("surrogate", "decoder", "forward", decoder, smooth);
  list.parts_of("surrogate", outputs);
  LayerSpec& last = list.add(slice, "prediction", "surrogate");
  last.units = outputs;
  return list.take();
}

PartsConfig preset_parts(const std::string& name, const PresetSizes&, int epochs) {
  if (name != "jag") return {};
  using enum LossKind;
  const float little = 1e-3F;
  const double decay = 1e-4;
  PartsConfig parts;
  parts.terms = {judgement("right", "critic", 1, 1),
                 judgement("wrong", "judge", 0, 1),
                 judgement("adversarial", "frozen", 1, 0.01F),
                 term("scalars", "decoder_scalars", "answer_scalars", mse, 1),
                 term("images", "decoder_images", "answer_images", mse, 1),
                 term("forward_code", "forward", "code", mse, 1),
                 term("forward_scalars", "surrogate_scalars", "answer_scalars", mse, 1),
                 term("forward_images", "surrogate_images", "answer_images", mse, 1),
                 term("inverse", "inverse", kInput, mse, 1),
                 term("circle_inputs", "circle_inputs", kInput, mse, little),
                 term("circle_code", "circle_code", "code", mse, little)};
  parts.parts = {part("encoder", decay), part("decoder", decay), part("critic", decay), part("forward"),
                 part("inverse")};
  const int half = std::max(1, epochs / 2);
  Turn autoencoder{.parts = {"encoder", "decoder", "critic"},
                   .terms = {"right", "wrong", "adversarial", "scalars", "images"},
                   .until = half};
  Turn surrogate{
      .parts = {"forward", "inverse"},
      .terms = {"forward_code", "forward_scalars", "forward_images", "inverse", "circle_inputs", "circle_code"},
      .since = half};
  parts.turns = {autoencoder, surrogate};
  return parts;
}

}  // namespace mrmf
