// The network of a configuration: those that it can name, and settings of [model] with their keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "layers/spec.hpp"
#include "src/config/key_rules.hpp"

namespace mrmf {

struct Preset {
  std::string name;
  std::string description;  ///< one line
  std::string sample;       ///< usual shape of a sample, as `mrmf inspect --sample` takes it: "1600x3"
  int batch = 1;            ///< rows per step of a benchmark, unless given
  bool parts = false;       ///< a network of several parts (layers/parts.hpp), of which there is no benchmark
};
std::vector<Preset> preset_list();
std::vector<std::string> preset_names();
/// A sample's usual shape for the preset; "" when there is no such preset.
std::string preset_sample(const std::string& name);
/// The shape of a sample from "1600x3": positions per axis, then channels. ConfigError when the text is none.
Shape parse_sample(const std::string& text);
/// Preset::batch; 1 when there is no such preset.
int preset_batch(const std::string& name);

enum class NormKind { batch, group };
template <>
inline std::vector<std::string> words_of<NormKind>() {
  return {"batch", "group"};
}

/// Sizes of a preset that has some; empty: its own.
struct PresetSizes {
  std::optional<int> levels;   ///< unet: poolings; resnet: numbers of channels
  std::optional<int> width;    ///< channels of the first level; every further one has twice as many
  std::optional<int> outputs;  ///< channels of the output
  std::optional<NormKind> norm;
  bool operator==(const PresetSizes&) const = default;
};

inline void list_keys(KeyList<PresetSizes>& keys) {
  using S = PresetSizes;
  const std::string sized = " (unet, unet3d, resnet)";
  keys.add("levels", &S::levels, within(1, 8), "levels of a preset" + sized + "; its own unless set");
  keys.add("width", &S::width, within(1, 4096),
           "channels of a preset's first level, doubled at each further one" + sized + "; its own unless set");
  keys.add("outputs", &S::outputs, within(1, 1 << 22),
           "channels of a preset's output: numbers, or classes (unet, unet3d, resnet; 1 unless set), or all scalars "
           "and pixels (jag; 16399 unless set)");
  keys.add("norm", &S::norm, one_of(words_of<NormKind>()), "norm of a preset" + sized + "; its own unless set");
}

/// The named layers of a preset. ConfigError with the nearest name when there is no such preset, or when it has no
/// sizes and some are given.
std::vector<LayerSpec> preset_layers(const std::string& name, const PresetSizes& sizes = {});

/// U-Net (Ronneberger et al. 2015; Cicek et al. 2016): two 3-wide convolutions with norm and ReLU per level, max
/// pooling by 2 down, transposed convolution by 2 and the skip's channels up, one convolution to the outputs.
std::vector<LayerSpec> unet_layers(const PresetSizes& sizes);
/// Residual network (He et al. 2016): two basic blocks per level, the first of each further level halves the positions;
/// mean over all positions, one dense layer. A 3-wide convolution instead of the first 7-wide one and its pooling.
std::vector<LayerSpec> resnet_layers(const PresetSizes& sizes);

/// Implosions (LLNL's JAG) as in the `macc` networks: a Wasserstein autoencoder of what instruments see, and models
/// from the drive to its code and back. `outputs`: the 15 scalars and the images' numbers.
std::vector<LayerSpec> jag_layers(const PresetSizes& sizes);

/// Names the unnamed layers by kind and position among their kind: conv1, pool1 (of either kind), relu1, ..., flatten.
/// ConfigError when two layers end up with one name.
void name_layers(std::vector<LayerSpec>& layers);

struct ModelConfig {
  std::string preset;             ///< a name of preset_list(); empty: `layers`
  PresetSizes sizes;              ///< sizes of the preset
  std::vector<LayerSpec> layers;  ///< filled from the preset if one is named
  std::string start;              ///< a run's folder or a model file whose parameters training begins with
  BottomSettings bottom;          ///< which layers a fusion transfers
  bool operator==(const ModelConfig&) const = default;
};

/// The list [[model.layers]] as one key (layer_keys.cpp).
void add_layers_key(KeyList<ModelConfig>& keys);

inline void list_keys(KeyList<ModelConfig>& keys) {
  using M = ModelConfig;
  keys.add("preset", &M::preset, one_of(preset_names()), "a network from the list of `mrmf presets`");
  keys.add_table("", &M::sizes, list_keys);
  add_layers_key(keys);
  keys.add("start", &M::start, {},
           "a run's folder or a model file: layers of the first model that is trained begin with the parameters of the "
           "layer of the same name and shapes there, the others anew");
  keys.add("cut", &M::bottom, &BottomSettings::cut, {},
           "name of the first top layer: fusion transfers those below it; the first flatten unless set");
  keys.add("bottom", &M::bottom, &BottomSettings::layers, {},
           "instead of model.cut: names of the layers that fusion transfers; \"down*\" stands for all that begin with "
           "down");
}

}  // namespace mrmf
