// What the manual and the shells' completion tell of a command's options. Private to src/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace mrmf {

/// Options that --help shows, in its order; first those with names, then positional ones.
inline std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([=](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

/// "-o, --output", or the name of a positional option.
inline std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name(true));
  return names;
}

/// Whether a value follows the option's name.
inline bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The words that the option takes, if only a few: what CLI11 writes as "TEXT:{cpu,cuda}".
inline std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> words;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return words;
  std::string word;
  for (const char c : type.substr(begin + 1, end - begin - 1)) {
    if (c != ',') word += c;
    if (c == ',') words.push_back(std::exchange(word, {}));
  }
  words.push_back(word);
  return words;
}

/// The command with all its subcommands, each before its own.
inline std::vector<const CLI::App*> with_subcommands(const CLI::App& app) {
  std::vector<const CLI::App*> all{&app};
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const CLI::App* each : with_subcommands(*sub)) all.push_back(each);
  return all;
}

/// "mrmf simulate fields".
inline std::string command_words(const CLI::App& app) {
  return app.get_parent() == nullptr ? "mrmf" : command_words(*app.get_parent()) + " " + app.get_name();
}

}  // namespace mrmf
