// All keys, and those of entries of lists such as [[model.layers]]. Private to src/config.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/key_table.hpp"

namespace mrmf {

/// Every key of the configuration, in the order of writing and describing.
Keys<Config> config_keys();

/// A key of [[model.layers]] and the layer kinds that have it.
struct LayerKey {
  Key<LayerSpec> key;
  std::vector<LayerKind> kinds;
  bool required = false;
};
std::vector<LayerKey> layer_keys();

/// The keys of an entry of [[training.terms]], [[training.parts]], [[training.turns]] and [[method.stages]].
Keys<LossTerm> loss_term_keys();
Keys<PartConfig> part_keys();
Keys<Turn> turn_keys();
Keys<StageOverride> stage_keys();

/// Reading and writing a loss: a word, or a list of them as a sum (loss_metric_keys.cpp).
void read_loss(LossSettings& loss, const Value& value, const std::string& path);
std::string write_loss(const LossSettings& loss);
std::string expected_loss();

/// Names terms that have no name.
void name_terms(std::vector<LossTerm>& terms);
/// What a preset of several parts trains for, if the last phase has so many epochs; of others, nothing.
PartsConfig preset_parts(const std::string& name, const PresetSizes& sizes, int epochs);

/// Files that patterns name, the parts of a split, and what both parts share. ConfigError where keys do not fit each
/// other.
void complete_data(DataConfig& data, const KeyLocations& locations, const std::string& origin);
/// ConfigError where terms, parts, turns and layers do not fit each other or the rest.
void complete_parts(Config& config, const KeyLocations& locations, const std::string& origin);
/// Lion's momenta are local where directions are added; ConfigError where the keys of sums do not fit the others.
void complete_communication(Config& config, const KeyLocations& locations, const std::string& origin);
/// What labels are follows from the loss; ConfigError where the keys of a task do not fit each other.
void complete_task(Config& config, const KeyLocations& locations, const std::string& origin);
/// training.metric and training.monitor follow tournament.metric; ConfigError where they cannot.
void complete_tournament(Config& config, const KeyLocations& locations, const std::string& origin);
/// ConfigError where keys of [training] do not go with each other or with the method.
void check_training(const Config& config, const KeyLocations& locations, const std::string& origin);
/// ConfigError where keys of [tournament] do not go with each other or with the rest.
void check_tournament(const Config& config, const KeyLocations& locations, const std::string& origin);

/// Derives keys that follow from others, and makes checks that span several keys. Names `origin` where no key was set.
void complete(Config& config, const KeyLocations& locations, const std::string& origin);
/// ConfigError for a patience without a threshold.
void check_stops(const MethodConfig& method, const KeyLocations& locations, const std::string& origin);

}  // namespace mrmf
