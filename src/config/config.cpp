#include "src/config/config.hpp"

#include <algorithm>
#include <filesystem>

#include "io/input_file.hpp"
#include "io/limits.hpp"
#include "kernels/check.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

std::string section_of(const std::string& path) { return path.substr(0, path.find('.')); }

// method.join is a former key. Runs wrote it out, but an existing run's value no longer matters.
void drop_join(Value& root, Writer writer) {
  const auto method = std::ranges::find(root.items, "method", &Value::key);
  if (method == root.items.end()) return;
  const auto join = std::ranges::find(method->items, "join", &Value::key);
  if (join == method->items.end()) return;
  if (writer == Writer::person && read_boolean(*join, "method.join"))
    throw ConfigError(join->where +
                      ": method.join = true is no longer there: when a team joined the other depended on the machine, "
                      "so no such run could be repeated; remove it, and the team that is ready first waits");
  method->items.erase(join);
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
    text = read_file(path, kMostTomlBytes);
  } catch (const DataError& reason) {
    throw ConfigError(reason.what());
  }
  return parse_config(text, path, overrides, writer);
}

Config parse_config(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                    Writer writer) {
  Value root = parse_toml(text, origin);
  for (const std::string& setting : overrides) apply_override(root, setting);
  drop_join(root, writer);
  Config config;
  Places places;
  read_table(root, "", "", config_keys(), config, places);
  complete(config, places, origin);
  if (writer == Writer::person) check_stops(config.method, places, origin);
  return config;
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key<Config>& key : config_keys()) {
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
        key.path == "data.channels")
      continue;
    KeyDifference difference{key.path, key.write(was), key.write(is)};
    if (difference.was != difference.is) found.push_back(std::move(difference));
  }
  return found;
}

}  // namespace mrmf
