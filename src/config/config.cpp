// Configurations as texts, read and written, in the words of today and of earlier versions; and compared.
#include "src/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
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

// Words of earlier versions.

namespace {

/// The sections that had other words.
struct FormerSection {
  const char* name;
  std::span<const FormerKey> keys;
  std::span<const FormerValue> values;
};
constexpr std::array kFormer{FormerSection{"method", kFormerMethodKeys, kFormerMethodValues},
                             FormerSection{"data", {}, kFormerDataValues}};

constexpr const char* kLowersNoLoss =
    "it lowered no loss; remove it, or use the version that docs/results/lab.md names";
struct GoneKey {
  const char *section, *name;
  const char* today;         ///< the value that changes nothing, as TOML
  const char* reason;        ///< why another value is refused, and what to do
  bool of_training = false;  ///< a finished run is used in the same way, whatever its value
};
constexpr std::array kGone{
    GoneKey{"method", "join", "false",
            "when a team joined the other depended on the machine, so no such run could be repeated; remove it, and "
            "the team that is ready first waits",
            true},
    GoneKey{"method", "dilated", "false", kLowersNoLoss}, GoneKey{"data", "coarsening", "\"average\"", kLowersNoLoss}};

void rename_key(Value& section, const FormerKey& key, std::vector<std::string>& lines) {
  const auto was = std::ranges::find(section.items, key.was, &Value::key);
  if (was == section.items.end()) return;
  if (std::ranges::find(section.items, key.is, &Value::key) != section.items.end())
    throw ConfigError(fmt::format("{0}: {1}.{2} is called {1}.{3} now, and both are given; keep {1}.{3}", was->where,
                                  section.key, key.was, key.is));
  lines.push_back(fmt::format("{0}: {1}.{2} is called {1}.{3} now", was->where, section.key, key.was, key.is));
  was->key = key.is;
}

void rename_value(Value& section, const FormerValue& value, std::vector<std::string>& lines) {
  const auto found = std::ranges::find(section.items, value.key, &Value::key);
  if (found == section.items.end() || found->kind != Value::Kind::text || found->text != value.was) return;
  lines.push_back(fmt::format("{0}: {1}.{2} = \"{3}\" is called \"{4}\" now", found->where, section.key, value.key,
                              value.was, value.is));
  found->text = value.is;
}

}  // namespace

std::vector<std::string> rename_deprecated_keys(Value& root) {
  std::vector<std::string> lines;
  for (Value& section : root.items) {
    for (const FormerSection& former : kFormer) {
      if (section.key != former.name) continue;
      for (const FormerKey& key : former.keys) rename_key(section, key, lines);
      for (const FormerValue& value : former.values) rename_value(section, value, lines);
    }
  }
  return lines;
}

void drop_gone_keys(Value& root, bool of_run) {
  for (const GoneKey& key : kGone) {
    const auto section = std::ranges::find(root.items, key.section, &Value::key);
    if (section == root.items.end()) continue;
    const auto found = std::ranges::find(section->items, key.name, &Value::key);
    if (found == section->items.end()) continue;
    if (!(of_run && key.of_training) && render(*found) != key.today)
      throw ConfigError(fmt::format("{}: {}.{} = {} is no longer there: {}", found->where, key.section, key.name,
                                    render(*found), key.reason));
    section->items.erase(found);
  }
}

std::map<std::string, std::string> with_todays_words(const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> today = settings;
  for (const GoneKey& key : kGone)
    if (const auto found = today.find(fmt::format("{}.{}", key.section, key.name));
        found != today.end() && found->second == key.today)
      today.erase(found);
  for (const FormerSection& section : kFormer) {
    for (const FormerKey& key : section.keys) {
      auto former = today.extract(fmt::format("{}.{}", section.name, key.was));
      if (former.empty()) continue;
      former.key() = fmt::format("{}.{}", section.name, key.is);
      today.insert(std::move(former));
    }
    for (const FormerValue& value : section.values) {
      const auto found = today.find(fmt::format("{}.{}", section.name, value.key));
      if (found != today.end() && found->second == quoted(value.was)) found->second = quoted(value.is);
    }
  }
  return today;
}

std::string todays_word(const std::string& key, const std::string& word) {
  for (const FormerSection& section : kFormer)
    for (const FormerValue& former : section.values)
      if (key == fmt::format("{}.{}", section.name, former.key) && word == former.was) return former.is;
  return word;
}

}  // namespace mrmf
