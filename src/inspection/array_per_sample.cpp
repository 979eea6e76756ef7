// Files that hold an array for each sample, where a sample is to be a row, a group or a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "src/inspection/guess_parts.hpp"

namespace mrmf {
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
