// Samples that are no rows of one array, but groups or arrays of their own; declared in dataset_guess.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

// Which groups of a file may be its samples, and what they are for, by their places and names.

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

// Files that hold an array for each sample, where a sample is to be a row, a group or a file.

namespace {

constexpr Index kFewest = 3;  // arrays whose names only count: of two, one may be what is to be made of the other
constexpr Index kMany = 8;    // arrays alike that are hardly quantities of their own, whatever they are called

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string name_in_group(const FileArray& array) { return array.name.substr(array.name.rfind('/') + 1); }

std::string without_numbers(std::string name) {
  std::erase_if(name, is_digit);
  return name;
}

bool is_counted(const FileArray& array) { return std::ranges::any_of(name_in_group(array), is_digit); }

// "img_0" and "img_1", or "cat1/s1" and "cat2/s7": shapes may differ, as those of photographs do.
bool are_counted_together(const FileArray& one, const FileArray& other) {
  return is_counted(one) && is_counted(other) && one.shape.size() == other.shape.size() && one.type == other.type &&
         without_numbers(one.name) == without_numbers(other.name);
}

bool have_one_form(const FileArray& one, const FileArray& other) {
  return one.shape == other.shape && one.type == other.type && one.type_name == other.type_name;
}

// Labels that are stored as samples are, as a picture without noise is.
bool says_labels(const FileArray& labels, const FileArray& samples) {
  return is_named_beside(labels.name, samples.name) || (is_like_labels(labels.name) && !is_like_labels(samples.name));
}

Index count_together(const FileArray& one, const std::vector<FileArray>& arrays) {
  return std::ranges::count_if(arrays, [&](const FileArray& array) { return are_counted_together(array, one); });
}

// The same array of two groups: "cat/x" and "dog/x".
bool is_namesake(const FileArray& one, const FileArray& other) {
  return have_one_form(one, other) && name_in_group(one) == name_in_group(other) &&
         std::ranges::count(one.name, '/') == std::ranges::count(other.name, '/') && one.name != other.name;
}

// Those of the same form that may be samples for the same end, and are no arrays of groups that are samples.
bool is_alike(const FileArray& array, const FileArray& samples) {
  return have_one_form(array, samples) && (is_counted(samples) || !is_namesake(array, samples)) &&
         !says_labels(array, samples) && is_held_out(array.name) == is_held_out(samples.name);
}

Index count_of_form(const FileArray& one, const std::vector<FileArray>& arrays) {
  return std::ranges::count_if(arrays, [&](const FileArray& array) { return is_alike(array, one); });
}

// As many as are alike, one per sample as it seems; 0: so few that they are rather not.
Index count_alike(const FileArray& samples, const std::vector<FileArray>& arrays) {
  const Index together = count_together(samples, arrays), of_form = count_of_form(samples, arrays);
  return std::max(together >= kFewest ? together : 0, of_form >= kMany ? of_form : 0);
}

// Whether many arrays may have rows each, as the files of a detector have, rather than be one picture or series each.
bool may_be_parts(const FileArray& one, Index count) {
  return one.shape.size() > 2 && one.rows() > count && one.rows() != one.shape[1];
}

}  // namespace

bool is_another_sample(const FileArray& labels, const FileArray& samples, const std::vector<FileArray>& arrays) {
  const Index together = count_together(samples, arrays);
  if (together >= kFewest && are_counted_together(labels, samples)) return true;
  if (together >= kMany && is_counted(labels) && count_together(labels, arrays) >= kMany) return true;  // "mask_0"
  if (says_labels(labels, samples)) return false;
  return is_namesake(labels, samples) || (have_one_form(labels, samples) && count_alike(samples, arrays) >= kMany);
}

bool is_array_per_sample(const FileArray& samples, const std::vector<FileArray>& arrays) {
  const Index count = count_alike(samples, arrays);
  if (count < kMany) return false;
  bool per_row = false, per_array = false, named_row = false, named_array = false;
  for (const FileArray& array : arrays) {
    if (have_one_form(array, samples) && !says_labels(array, samples)) continue;
    if (array.scale || array.attribute || is_another_sample(array, samples, arrays)) continue;
    const bool named = is_like_labels(array.name);
    if (array.rows() == count) per_array = true, named_array = named_array || named;
    if (array.rows() == samples.rows()) per_row = true, named_row = named_row || named;
  }
  if (!per_row || count == samples.rows()) return true;
  return per_array && named_array && !named_row;
}

std::string array_per_sample_text(const FileArray& samples, const std::vector<FileArray>& arrays) {
  const Index count = count_alike(samples, arrays);
  if (count == 0) return "";
  const bool counted = count_together(samples, arrays) == count;
  const auto other = std::ranges::find_if(arrays, [&](const FileArray& array) {
    return array.name != samples.name && (counted ? are_counted_together(array, samples) : is_alike(array, samples));
  });
  const std::string such = fmt::format("{} arrays such as '{}' ({}) and '{}' ({})", count, samples.name,
                                       fmt::join(samples.shape, ", "), other->name, fmt::join(other->shape, ", "));
  const std::string one_each = fmt::format(
      "store them as one array of {} rows, or each in a group of its own beside its label, or name data sets with "
      "--samples and --labels",
      count);
  Index rows = 0;
  bool one_shape = true;
  for (const FileArray& array : arrays) {
    if (counted ? !are_counted_together(array, samples) : !is_alike(array, samples)) continue;
    rows += array.rows();
    one_shape = one_shape &&
                std::equal(array.shape.begin() + 1, array.shape.end(), samples.shape.begin() + 1, samples.shape.end());
  }
  const std::string join = fmt::format("{} along the first axis into one array of {} rows{}",
                                       one_shape ? "join them" : "bring their rows to one shape and join them", rows,
                                       one_shape ? ", as a virtual data set does without a copy" : "");
  const auto labels = std::ranges::find_if(
      arrays, [&](const FileArray& array) { return array.rows() == rows && !array.scale && !array.attribute; });
  if (labels != arrays.end())
    return fmt::format("{} have {} rows together, as '{}' has: {}", such, rows, labels->name, join);
  if (count >= kMany && !may_be_parts(samples, count)) return such + " seem to be one sample each; " + one_each;
  return fmt::format("{} seem to be parts of one array, or one sample each; if they are parts, {}; else {}", such, join,
                     one_each);
}

FileNames users_names(const std::string& path) {
  FileNames names = names_of(path);
  std::erase_if(names.datasets, [](const std::string& name) {
    const std::string from_root = "/" + name;
    return std::ranges::any_of(std::array{"/#refs#/", "/#subsystem#/", "/_i_"},
                               [&](const char* part) { return from_root.find(part) != std::string::npos; });
  });
  leave_out_unreadable(names, path);
  return names;
}

}  // namespace mrmf
