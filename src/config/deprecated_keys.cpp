#include "src/config/deprecated_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

struct FormerKey {
  const char *section, *was, *is;
};
constexpr std::array kKeys{FormerKey{"method", "look_epochs", "probe_epochs"},
                           FormerKey{"method", "handover", "transfer"}, FormerKey{"method", "split", "team_shares"}};

struct FormerValue {
  const char *section, *name, *was, *is;  ///< `name`: today's
};
constexpr std::array kValues{FormerValue{"method", "top", "front", "stem"},
                             FormerValue{"method", "detail", "look", "measure"}};

// Keys that are gone, with what they say where it is done without them (src/config/config.cpp).
constexpr std::array<std::pair<const char*, const char*>, 2> kGone{
    {{"data.coarsening", "\"average\""}, {"method.dilated", "false"}}};

void rename_key(Value& section, const FormerKey& key, std::vector<std::string>& lines) {
  const auto was = std::ranges::find(section.items, key.was, &Value::key);
  if (was == section.items.end()) return;
  if (std::ranges::find(section.items, key.is, &Value::key) != section.items.end())
    throw ConfigError(fmt::format("{0}: {1}.{2} is called {1}.{3} now, and both are given; keep {1}.{3}", was->where,
                                  key.section, key.was, key.is));
  lines.push_back(fmt::format("{0}: {1}.{2} is called {1}.{3} now", was->where, key.section, key.was, key.is));
  was->key = key.is;
}

void rename_value(Value& section, const FormerValue& value, std::vector<std::string>& lines) {
  const auto found = std::ranges::find(section.items, value.name, &Value::key);
  if (found == section.items.end() || found->kind != Value::Kind::text || found->text != value.was) return;
  lines.push_back(fmt::format("{0}: {1}.{2} = \"{3}\" is called \"{4}\" now", found->where, value.section, value.name,
                              value.was, value.is));
  found->text = value.is;
}

}  // namespace

std::vector<std::string> rename_deprecated_keys(Value& root) {
  std::vector<std::string> lines;
  for (Value& section : root.items) {
    for (const FormerKey& key : kKeys)
      if (section.key == key.section) rename_key(section, key, lines);
    for (const FormerValue& value : kValues)
      if (section.key == value.section) rename_value(section, value, lines);
  }
  return lines;
}

std::map<std::string, std::string> with_todays_words(const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> today = settings;
  for (const auto& [key, value] : kGone)
    if (const auto found = today.find(key); found != today.end() && found->second == value) today.erase(found);
  for (const FormerKey& key : kKeys) {
    auto former = today.extract(fmt::format("{}.{}", key.section, key.was));
    if (former.empty()) continue;
    former.key() = fmt::format("{}.{}", key.section, key.is);
    today.insert(std::move(former));
  }
  for (const FormerValue& value : kValues) {
    const auto found = today.find(fmt::format("{}.{}", value.section, value.name));
    if (found != today.end() && found->second == quoted(value.was)) found->second = quoted(value.is);
  }
  return today;
}

std::string todays_word(const std::string& key, const std::string& word) {
  for (const FormerValue& former : kValues)
    if (key == fmt::format("{}.{}", former.section, former.name) && word == former.was) return former.is;
  return word;
}

}  // namespace mrmf
