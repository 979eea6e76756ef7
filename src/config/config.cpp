#include "src/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/config/deprecated_keys.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

std::string section_of(const std::string& path) { return path.substr(0, path.find('.')); }

// "--set data.split.column=": as if the file did not have the key. One that it does not have must at least be a key.
void take_away(Value& root, const std::string& path, const std::string& setting) {
  if (unset(root, path)) return;
  const std::vector<std::string> known = paths(config_keys(), "");
  if (std::ranges::any_of(known, [&](const std::string& key) { return key == path || key.starts_with(path + "."); }))
    return;
  Value missing;
  missing.where = "--set " + setting;
  unknown_key(missing, path, known);
}

}  // namespace

Config read_config(const std::string& path, const std::vector<std::string>& overrides, Writer writer) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::directory)
    throw ConfigError(path + ": is a folder; name the configuration file in it");
  if (type == std::filesystem::file_type::not_found) throw ConfigError(path + ": there is no such file");
  if (error)
    throw ConfigError(path + ": cannot be read" + " (" + error.message() + "); check its permissions and its folder's");
  std::string text;
  try {
    if (is_hdf5(path))
      throw ConfigError(
          fmt::format("{0}: is an HDF5 file, not a configuration; `mrmf init {0}` writes one for its data", path));
    text = read_file(path, kMostTomlBytes);
  } catch (const DataError& reason) {
    throw ConfigError(reason.what());
  }
  return parse_config(text, path, overrides, writer);
}

Config parse_config(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                    Writer writer) {
  Value root = parse_toml(text, origin);
  for (const std::string& setting : overrides)
    if (const std::optional<std::string> key = unset_key(setting))
      take_away(root, *key, setting);
    else
      apply_override(root, setting);
  drop_gone_keys(root, writer == Writer::run);
  std::vector<std::string> former = rename_deprecated_keys(root);
  Config config;
  if (writer == Writer::person) config.deprecation_warnings = std::move(former);
  KeyLocations locations;
  read_table(root, "", "", config_keys(), config, locations);
  complete(config, locations, origin);
  if (writer == Writer::person) check_stops(config.method, locations, origin);
  return config;
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key<Config>& key : config_keys()) {
    // The section of a tournament is that of runs that are one.
    if (key.path.starts_with("tournament.") && config.tournament == TournamentConfig{}) continue;
    const std::string value = key.write(config);
    if (value.empty()) continue;
    if (section_of(key.path) != section) {
      text += (section.empty() ? "[" : "\n[") + section_of(key.path) + "]\n";
      section = section_of(key.path);
    }
    text += key.path.substr(section.size() + 1) + " = " + value + "\n";
  }
  return text;
}

int last_epochs(const Config& config) { return config.method.finetune.epochs.value_or(config.training.epochs); }

void set_last_epochs(Config& config, int epochs) {
  const bool only_phase = config.method.resolutions.size() == 1;
  if (only_phase && !config.method.finetune.epochs)
    config.training.epochs = epochs;
  else
    config.method.finetune.epochs = epochs;
}

std::vector<KeyDifference> differences(const Config& was, const Config& is) {
  std::vector<KeyDifference> found;
  for (const Key<Config>& key : config_keys()) {
    if (key.path.starts_with("run.") || key.path == "data.load" || key.path == "data.memory" ||
        key.path == "data.channels" || key.path == "data.duplicates" || key.path == "method.detail" ||
        key.path.starts_with("data.names.") || key.path == "training.optimizer.tuned_batch")
      continue;
    KeyDifference difference{key.path, key.write(was), key.write(is)};
    if (difference.was != difference.is) found.push_back(std::move(difference));
  }
  return found;
}

}  // namespace mrmf
