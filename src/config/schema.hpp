// The options there are, and the entries of the two lists of tables. Private to src/config.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace mrmf {

/// Every key of the configuration, in the order it is written and described.
std::vector<Key<Config>> config_keys();

/// A key of [[model.layers]] and the kinds of layer that have it.
struct LayerKey {
  Key<LayerSpec> key;
  std::vector<LayerKind> kinds;
  bool required = false;
};
std::vector<LayerKey> layer_keys();
/// kernel, window or stride: a number for every axis of the data, or a list; `once` notes which it was.
Key<LayerSpec> size_key(const std::string& path, Extent LayerSpec::*size, bool OneForAll::*once,
                        const std::string& meaning);
/// padding of a conv: a word, or what goes before and after each axis.
Key<LayerSpec> padding_key();
/// The list [[model.layers]] as one key.
Key<ModelConfig> layer_list_key();

/// method.resolutions, which also says for how many axes its factors are.
Key<MethodConfig> resolutions_key();

/// data.memory: a number of GB, or a text with its unit.
Key<DataConfig> memory_key();

std::vector<Key<StageOverride>> stage_keys();
/// The list [[method.stages]] as one key.
Key<MethodConfig> stage_list_key();

/// Fills in what follows from other keys, and checks what no key can check alone. `origin` is named where no key is.
void complete(Config& config, const Places& places, const std::string& origin);
/// ConfigError for a patience that waits for no threshold.
void check_stops(const MethodConfig& method, const Places& places, const std::string& origin);

}  // namespace mrmf
