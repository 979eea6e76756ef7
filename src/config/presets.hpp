// The networks that a configuration can name.
#pragma once

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
};
std::vector<Preset> preset_list();
/// A sample's usual shape for the preset; "" when there is no such preset.
std::string preset_sample(const std::string& name);
/// The shape of a sample from "1600x3": positions per axis, then channels. ConfigError when the text is none.
Shape parse_sample(const std::string& text);
/// Preset::batch; 1 when there is no such preset.
int preset_batch(const std::string& name);

/// The named layers of a preset. ConfigError with the nearest name when there is no such preset.
std::vector<LayerSpec> preset_layers(const std::string& name);

/// Names the unnamed layers by kind and position among their kind: conv1, pool1 (of either kind), relu1, ..., flatten.
/// ConfigError when two layers end up with one name.
void name_layers(std::vector<LayerSpec>& layers);

}  // namespace mrmf
