#include "src/config/key_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

// What expected_word() lists. Some keys say behind it what else they take.
std::vector<std::string> words_in(const std::string& expected) {
  constexpr std::string_view head = "one of ";
  std::vector<std::string> words;
  if (!expected.starts_with(head)) return words;
  std::istringstream rest(expected.substr(head.size()));
  for (std::string word; std::getline(rest, word, ',') && word.find(' ', 1) == std::string::npos;)
    words.push_back(word.starts_with(' ') ? word.substr(1) : word);
  return words;
}

template <class S>
KeyDescription description(const std::string& list, const Key<S>& key, const std::string& standard) {
  return {list, key.path, {}, key.expected, words_in(key.expected), standard, key.meaning};
}

std::string describe(const KeyDescription& key) {
  const bool said = key.standard.empty() || key.meaning.find("unless set") != std::string::npos;
  return fmt::format("  {}{}\n      {}{}\n      {}\n", key.path,
                     key.kinds.empty() ? "" : fmt::format("  ({})", fmt::join(key.kinds, ", ")), key.expected,
                     said ? "" : "; " + key.standard + " unless set", key.meaning);
}

}  // namespace

std::vector<KeyDescription> key_list() {
  const Config standard;
  std::vector<KeyDescription> all;
  for (const Key<Config>& key : config_keys()) all.push_back(description("", key, key.write(standard)));
  for (const LayerKey& entry : layer_keys()) {
    all.push_back(description("model.layers", entry.key, entry.required ? "" : entry.key.write(LayerSpec{})));
    if (entry.kinds.size() == std::size(kLayerKinds)) continue;
    for (const LayerKind kind : entry.kinds) all.back().kinds.push_back(to_string(kind));
  }
  for (const Key<StageOverride>& key : stage_keys()) all.push_back(description("method.stages", key, ""));
  return all;
}

std::string describe_keys() {
  std::string text, section;
  for (const KeyDescription& key : key_list()) {
    const std::string own = key.list.empty() ? key.path.substr(0, key.path.find('.')) : "[" + key.list + "]";
    if (own != section) text += (text.empty() ? "[" : "\n[") + own + "]\n";
    section = own;
    text += describe(key);
  }
  return text;
}

std::string keys_json() {
  nlohmann::ordered_json keys = nlohmann::ordered_json::array();
  for (const KeyDescription& key : key_list()) {
    nlohmann::ordered_json entry{{"key", key.path}, {"expected", key.expected}, {"meaning", key.meaning}};
    if (!key.list.empty()) entry["list"] = key.list;
    if (!key.kinds.empty()) entry["layers"] = key.kinds;
    if (!key.words.empty()) entry["words"] = key.words;
    entry["default"] = key.standard.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(key.standard);
    keys.push_back(std::move(entry));
  }
  return nlohmann::ordered_json{{"keys", keys}}.dump(2) + "\n";
}

}  // namespace mrmf
