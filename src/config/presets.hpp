// The networks that a configuration can name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "layers/spec.hpp"

namespace mrmf {

struct Preset {
  std::string name;
  std::string description;  ///< one line
  std::string sample;       ///< usual shape of a sample, as `mrmf inspect --sample` takes it: "1600x3"
  int batch = 1;            ///< rows per step of a benchmark, unless given
  bool parts = false;       ///< a network of several parts (layers/parts.hpp), of which there is no benchmark
};
std::vector<Preset> preset_list();
/// A sample's usual shape for the preset; "" when there is no such preset.
std::string preset_sample(const std::string& name);
/// The shape of a sample from "1600x3": positions per axis, then channels. ConfigError when the text is none.
Shape parse_sample(const std::string& text);
/// Preset::batch; 1 when there is no such preset.
int preset_batch(const std::string& name);

enum class NormKind { batch, group };

/// Sizes of a preset that has some; empty: its own.
struct PresetSizes {
  std::optional<int> levels;   ///< unet: poolings; resnet: numbers of channels
  std::optional<int> width;    ///< channels of the first level; every further one has twice as many
  std::optional<int> outputs;  ///< channels of the output
  std::optional<NormKind> norm;
  bool operator==(const PresetSizes&) const = default;
};

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

}  // namespace mrmf
