#include "src/config/deprecated_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/errors.hpp"

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
                             FormerValue{"method", "detail", "look", "measure"},
                             FormerValue{"data", "layout", "transpose", "as_stored"}};

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
