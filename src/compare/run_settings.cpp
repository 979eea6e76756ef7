#include "src/compare/run_settings.hpp"

#include <regex>
#include <sstream>

#include "src/config/deprecated_keys.hpp"

namespace mrmf {
namespace {

// What was measured over the training rows of one fold differs from fold to fold.
void forget_measured(Settings& settings) {
  std::erase_if(settings, [](const auto& entry) {
    return entry.first == "training.class_weights" || entry.first == "data.fill" ||
           entry.first.starts_with("data.normalise.sample_") || entry.first.starts_with("data.normalise.label_");
  });
}

bool by_folds(const Settings& settings) {
  const auto by = settings.find("data.split.by");
  return by != settings.end() && by->second == "\"folds\"";
}

// mrmf writes the effective configuration as [section] and "key = value" lines; lists take several lines.
Settings all_settings(const std::string& toml) {
  Settings settings;
  std::istringstream lines(toml);
  std::string line, section, key;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    const std::size_t equals = line.find(" = ");
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = line.substr(1, line.size() - 2);
    } else if (line.front() != ' ' && equals != std::string::npos) {
      key = section + "." + line.substr(0, equals);
      settings[key] = line.substr(equals + 3);
    } else {
      settings[key] += line;
    }
  }
  return with_todays_words(settings);
}

}  // namespace

Settings read_settings(const std::string& toml) {
  Settings settings = all_settings(toml);
  std::erase_if(settings, [&](const auto& entry) {
    return entry.first == "training.seed" || entry.first == "method.resolutions" || entry.first == "method.join" ||
           entry.first == "data.split.fold" || entry.first == "data.channels" ||
           entry.first == "method.detail" ||          // how "auto" came to the rest
           entry.first.starts_with("data.units.") ||  // what the data say, which runs of earlier versions lack
           entry.first.starts_with("run.");
  });
  if (by_folds(settings)) forget_measured(settings);
  return settings;
}

int fold_of(const std::string& toml) {
  static const std::regex line("(?:^|\n)split\\.fold = ([0-9]{1,6})");
  std::smatch found;
  if (!by_folds(all_settings(toml))) return 0;
  return std::regex_search(toml, found, line) ? std::stoi(found[1]) : 0;
}

}  // namespace mrmf
