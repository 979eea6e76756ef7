// All keys, and those of entries of lists such as [[model.layers]]. Private to src/config.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/key_table.hpp"

namespace mrmf {

/// Every key of the configuration, in the order of writing and describing.
std::vector<Key<Config>> config_keys();

/// A key of [[model.layers]] and the layer kinds that have it.
struct LayerKey {
  Key<LayerSpec> key;
  std::vector<LayerKind> kinds;
  bool required = false;
};
std::vector<LayerKey> layer_keys();
/// kernel, window or stride: one number for every axis of the data, or a list; sets `once` for the former.
Key<LayerSpec> size_key(const std::string& path, Extent LayerSpec::*size, bool OneForAll::*once,
                        const std::string& meaning);
/// padding of a conv: a word, or the zeros before and after each axis.
Key<LayerSpec> padding_key();
/// model.preset and its sizes (layer_keys.cpp).
std::vector<Key<ModelConfig>> preset_keys();
/// The list [[model.layers]] as one key.
Key<ModelConfig> layer_list_key();

/// method.resolutions, which also tells the number of axes.
Key<MethodConfig> resolutions_key();

/// Every key of [data] (data_keys.cpp).
std::vector<Key<DataConfig>> data_keys();
/// Files that patterns name, the parts of a split, and what both parts share. ConfigError where keys do not fit each
/// other.
void complete_data(DataConfig& data, const KeyLocations& locations, const std::string& origin);

/// The largest batch. It does not overflow when multiplied by the bytes of the largest sample
/// (io/files/input_file.hpp), or summed over all ranks.
inline constexpr double kMostBatch = 1 << 22;
/// The largest number of steps between two events.
inline constexpr double kMostSteps = 1e9;
/// Every key of [training] (training_keys.cpp).
std::vector<Key<TrainingConfig>> training_keys();
/// ConfigError where keys of [training] do not go with each other or with the method.
void check_training(const Config& config, const KeyLocations& locations, const std::string& origin);
/// The keys of [training] about the loss, and what labels are (loss_metric_keys.cpp).
std::vector<Key<TrainingConfig>> task_keys();
/// Reading and writing a loss: a word, or a list of them as a sum (loss_metric_keys.cpp).
void read_loss(LossSettings& loss, const Value& value, const std::string& path);
std::string write_loss(const LossSettings& loss);
std::string expected_loss();

/// The keys of [training] about networks of several parts: lists of terms, parts and turns (parts_keys.cpp).
std::vector<Key<TrainingConfig>> parts_keys();
std::vector<Key<LossTerm>> loss_term_keys();
std::vector<Key<PartConfig>> part_keys();
std::vector<Key<Turn>> turn_keys();
/// Names terms that have no name.
void name_terms(std::vector<LossTerm>& terms);
/// What a preset of several parts trains for, if the last phase has so many epochs; of others, nothing.
PartsConfig preset_parts(const std::string& name, const PresetSizes& sizes, int epochs);
/// ConfigError where terms, parts, turns and layers do not fit each other or the rest.
void complete_parts(Config& config, const KeyLocations& locations, const std::string& origin);
/// The keys of [training] about sums over ranks (training_keys.cpp).
std::vector<Key<TrainingConfig>> communication_keys();
/// Lion's momenta are local where directions are added; ConfigError where the keys of sums do not fit the others.
void complete_communication(Config& config, const KeyLocations& locations, const std::string& origin);
/// method.target.validation_accuracy and so on.
std::vector<Key<MethodConfig>> metric_target_keys();
/// What labels are follows from the loss; ConfigError where the keys of a task do not fit each other.
void complete_task(Config& config, const KeyLocations& locations, const std::string& origin);

/// Every key of [tournament] (tournament_keys.cpp).
std::vector<Key<TournamentConfig>> tournament_keys();
/// training.metric and training.monitor follow tournament.metric; ConfigError where they cannot.
void complete_tournament(Config& config, const KeyLocations& locations, const std::string& origin);
/// ConfigError where keys of [tournament] do not go with each other or with the rest.
void check_tournament(const Config& config, const KeyLocations& locations, const std::string& origin);

std::vector<Key<StageOverride>> stage_keys();
/// The list [[method.stages]] as one key.
Key<MethodConfig> stage_list_key();

/// Derives keys that follow from others, and makes checks that span several keys. Names `origin` where no key was set.
void complete(Config& config, const KeyLocations& locations, const std::string& origin);
/// ConfigError for a patience without a threshold.
void check_stops(const MethodConfig& method, const KeyLocations& locations, const std::string& origin);

}  // namespace mrmf
