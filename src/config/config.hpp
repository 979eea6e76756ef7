// Everything that a user sets, as structs: one header for each section of a configuration, with its keys.
#pragma once

#include <string>
#include <vector>

#include "src/config/data_config.hpp"
#include "src/config/key_rules.hpp"
#include "src/config/method_config.hpp"
#include "src/config/model_config.hpp"
#include "src/config/run_config.hpp"
#include "src/config/training_config.hpp"

namespace mrmf {

// The configuration: one TOML file, one struct, one table of keys. Unknown keys are errors with file:line and the
// nearest key. `--set section.key=value` overrides any key. The effective configuration is written to the run folder.

struct Config {
  DataConfig data;
  ModelConfig model;
  TrainingConfig training;
  MethodConfig method;
  TournamentConfig tournament;
  RunConfig run;
  /// A line for each word of an earlier version that a person wrote: a warning (config_warnings).
  std::vector<std::string> deprecation_warnings{};
  bool operator==(const Config&) const = default;
};

/// Every key of the configuration: those of a section stand with its settings.
inline void list_keys(KeyList<Config>& keys) {
  keys.add_table("data.", &Config::data, list_keys);
  keys.add_table("model.", &Config::model, list_keys);
  keys.add_table("training.", &Config::training, list_keys);
  keys.add_table("method.", &Config::method, list_keys);
  keys.add_table("tournament.", &Config::tournament, list_keys);
  keys.add_table("run.", &Config::run, list_keys);
}

/// Who wrote a configuration: a person, or an earlier run into its folder. A run's file keeps its meaning, whatever is
/// required of people since.
enum class Writer { person, run };

/// Reads a file and applies `overrides` ("training.batch=256"; bare words count as texts). Throws ConfigError
/// "<file>:<line>: what is wrong; did you mean ...", or "--set <override>: ..." for an override's error. The result is
/// complete: preset layers are filled in, every layer has a name, pools have strides. Paths of data files stay as
/// written: they are relative to the current directory, not to the configuration.
Config read_config(const std::string& path, const std::vector<std::string>& overrides, Writer writer = Writer::person);
/// The same for text; `origin` replaces the file name in messages.
Config parse_config(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                    Writer writer = Writer::person);
/// The effective configuration as TOML. parse_config reads it back to an equal one.
std::string to_toml(const Config& config);
/// Every key with its type, default and meaning, for the documentation and `mrmf presets --keys`.
std::string describe_keys();

/// The number of epochs of the plan's last phase, and a change of it that leaves the phases before it as they are.
int last_epochs(const Config& config);
void set_last_epochs(Config& config, int epochs);

/// A key in which two configurations differ.
struct KeyDifference {
  std::string key, was, is;  ///< values as TOML; "" when a key is not set
};

/// Compares every key that decides what is computed. Leaves out those about where and how ([run], data.load,
/// data.memory), the check data.channels, and method.detail, whose answer is the rest of [method].
std::vector<KeyDifference> differences(const Config& was, const Config& is);

}  // namespace mrmf
