// Which groups of a file may be its samples, and what they are for, by their places and names.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "src/inspection/guess_parts.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kFewestGroups = 2;

bool is_split(const std::string& group) { return is_for_training(group) || is_held_out(group); }

std::string own_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// The names that only count: "sim_3" without its digits.
std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

std::vector<GroupFamily> families_of(const std::vector<std::string>& datasets) {
  std::map<std::string, std::vector<std::string>> within_groups;  // by group: the names in it
  for (const std::string& path : datasets)
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      within_groups[path.substr(0, slash)].push_back(path.substr(slash + 1));
  std::map<std::pair<std::size_t, std::vector<std::string>>, std::vector<std::string>> alike;
  for (const auto& [group, names] : within_groups)
    if (!is_split(own_name(group)))
      alike[{static_cast<std::size_t>(std::ranges::count(group, '/')), names}].push_back(group);
  std::vector<GroupFamily> families;
  for (const auto& [kind, groups] : alike)
    if (groups.size() >= kFewestGroups) families.push_back({kind.first, groups, kind.second});
  return families;
}

/// Whether groups are parts of what lies above them: every "sim_*" has a "gas" and a "stars". Groups that are only
/// counted are not.
bool are_parts(const GroupFamily& family, const std::vector<GroupFamily>& all) {
  std::set<std::string> parents, names;
  for (const std::string& group : family.groups) {
    parents.insert(parent_of(group));
    names.insert(without_digits(own_name(group)));
  }
  return names.size() > 1 && std::ranges::any_of(all, [&](const GroupFamily& above) {
           return above.depth + 1 == family.depth && std::ranges::all_of(parents, [&](const std::string& parent) {
                    return std::ranges::find(above.groups, parent) != above.groups.end();
                  });
         });
}

/// What stands for all of some names: their common beginning and "*".
std::string pattern_of_level(const std::set<std::string>& names) {
  std::string common = *names.begin();
  for (const std::string& name : names)
    common.resize(static_cast<std::size_t>(std::ranges::mismatch(common, name).in1 - common.begin()));
  if (names.size() > 1)
    while (!common.empty() && (std::isdigit(static_cast<unsigned char>(common.back())) != 0)) common.pop_back();
  std::ranges::replace_if(
      common, [](char c) { return c == '*' || c == '?' || c == '['; }, '?');
  return names.size() > 1 ? common + "*" : common;
}

}  // namespace

std::vector<GroupFamily> likely_families(const std::vector<std::string>& datasets) {
  constexpr std::size_t kTried = 3;
  const std::vector<GroupFamily> all = families_of(datasets);
  std::vector<GroupFamily> likely = all;
  std::ranges::stable_sort(likely, {}, [&](const GroupFamily& family) {
    return std::pair(are_parts(family, all), -std::ssize(family.groups));
  });
  if (likely.size() > kTried) likely.resize(kTried);
  return likely;
}

GroupParts split_groups(const std::vector<std::string>& groups) {
  std::vector<std::string> train, validation, test, others;
  for (const std::string& group : groups) {
    const std::string above = parent_of(group);
    const bool tests = is_only_held_out(above) && is_for_tests(above);
    (is_for_training(above) ? train : tests ? test : is_held_out(above) ? validation : others).push_back(group);
  }
  if (train.empty()) train.swap(others);
  if (train.empty()) return {groups, {}};
  return {train, validation.empty() ? test : validation};
}

std::string pattern_of(const std::vector<std::string>& groups) {
  std::vector<std::set<std::string>> levels;
  for (const std::string& group : groups) {
    std::istringstream names(group);
    std::size_t level = 0;
    for (std::string name; std::getline(names, name, '/'); ++level) {
      levels.resize(std::max(levels.size(), level + 1));
      levels[level].insert(name);
    }
  }
  std::string pattern;
  for (const std::set<std::string>& names : levels) pattern += (pattern.empty() ? "" : "/") + pattern_of_level(names);
  return pattern;
}

std::string unused_groups(const FileNames& names, const std::string& samples, const std::set<std::string>& used) {
  std::vector<std::string> others;
  for (const std::string& name : names.datasets)
    if (name.ends_with("/" + samples))
      if (std::string group = name.substr(0, name.size() - samples.size() - 1); !used.contains(group))
        others.push_back(std::move(group));
  if (others.empty()) return "";
  return others.size() == 1 ? fmt::format("group '{}', which holds '{}' too, is not used", others.front(), samples)
                            : fmt::format("{} other groups that hold '{}', such as '{}', are not used", others.size(),
                                          samples, others.front());
}

std::string unused_groups(const FoundDataset& train, const FoundDataset& validation) {
  if (train.spec.rows != RowsBy::groups) return "";
  for (const std::string& path : train.spec.files) {
    std::set<std::string> used;
    for (const FoundDataset* rows : {&train, &validation})
      for (std::size_t i = 0; i < rows->spec.files.size(); ++i)
        if (rows->spec.files[i] == path)
          used.insert(rows->shape.groups[i].names->begin(), rows->shape.groups[i].names->end());
    if (const std::string text = unused_groups(names_of(path), train.spec.samples, used); !text.empty())
      return path + ": " + text;
  }
  return "";
}

}  // namespace mrmf
