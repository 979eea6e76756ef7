// Where a file's samples lie: rows of an array, groups, or whole files; declared in dataset_guess.hpp.
#include "src/inspection/dataset_guess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>

#include "io/hdf5/file.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr Index kCompared = 8;            // files or groups, evenly chosen
constexpr Index kSmall = Index{1} << 16;  // numbers of an array that are compared; larger ones differ

/// What may be one sample: a file, or a group of it.
struct Location {
  std::string path, group;
  bool operator==(const Location&) const = default;
};

Index elements(const FileArray& array) {
  Index all = 1;
  for (const Index size : array.shape) all *= size;
  return all;
}

bool is_number(const FileArray& array) { return array.type != ElementType::other && elements(array) > 0; }

/// One word, which may name a class.
bool is_word(const FileArray& array) { return array.words && elements(array) == 1; }

std::string within(const std::string& group, const std::string& name) {
  return group.empty() ? name : group + "/" + name;
}

void add_attributes_of(const Location& location, const std::string& array, std::vector<FileArray>& arrays) {
  const std::string object = array.empty() ? location.group : within(location.group, array);
  for (const auto& [name, info] : attributes_of(location.path, object)) {
    if (!array.empty() && is_about_numbers(name)) continue;
    arrays.push_back({array + "@" + name, info.shape, info.type, info.type_name, info.words, info.whole, info.packing,
                      info.may_miss, false, info.unclear});
    arrays.back().attribute = true;
  }
}

/// The arrays at a location, single numbers too, and its own attributes.
std::vector<FileArray> arrays_at(const Location& location, const std::vector<std::string>& names, PackingRule packing) {
  const Hdf5File file = Hdf5File::open(location.path, Comm::self(), packing);
  std::vector<std::string> paths;
  for (const std::string& name : names)
    if (file.has(within(location.group, name))) paths.push_back(within(location.group, name));
  std::vector<FileArray> arrays = facts_of(file, paths);
  std::erase_if(arrays, [](const FileArray& array) { return array.scale; });
  for (FileArray& array : arrays) {
    if (!location.group.empty()) array.name.erase(0, location.group.size() + 1);
    array.file.clear();  // another one at every location
  }
  add_attributes_of(location, "", arrays);
  return arrays;
}

/// What is known of an array, and of the same one at another location. Numbers of several types are read as doubles.
void join_facts(FileArray& array, const FileArray& other) {
  if (other.type != array.type) {
    array.type_name = array.complex() && other.complex() ? "complex numbers of several types" : "several types";
    array.type = ElementType::float64;
  }
  array.whole &= other.whole;
  array.unclear |= other.unclear;
  array.may_miss |= other.may_miss;
  if (array.packing != other.packing) array.packing = "packed, by attributes of its own in each sample";
}

bool same_kind(const FileArray& one, const FileArray& other) {
  return one.name == other.name && one.shape == other.shape && is_number(one) == is_number(other);
}

const std::string& text_of(const Location& location) { return location.group.empty() ? location.path : location.group; }

std::string kind_text(const Location& location, const FileArray& array) {
  return fmt::format("'{}' of {} is ({}) of {}", array.name, text_of(location), fmt::join(array.shape, ", "),
                     array.type_name);
}

/// The array with the most numbers: rather one that is not named like labels.
const FileArray* largest(const std::vector<FileArray>& arrays, const std::string& given) {
  const FileArray* best = nullptr;
  const auto rank = [](const FileArray& array) { return std::pair(!is_like_labels(array.name), elements(array)); };
  for (const FileArray& array : arrays) {
    if (!given.empty() && array.name != given) continue;
    if (!is_number(array) || array.shape.empty() || array.attribute || elements(array) < 2) continue;
    if (best == nullptr || rank(array) > rank(*best)) best = &array;
  }
  return best;
}

/// Locations of one sample each, evenly chosen of all: whether they are alike, and what varies.
class Compared {
 public:
  Compared(std::vector<Location> locations, const std::vector<std::string>& names, const GivenNames& given)
      : locations_(std::move(locations)), packing_(given.packing) {
    arrays_ = arrays_at(locations_.front(), names, packing_);
    const FileArray* const samples = largest(arrays_, given.samples);
    const std::string of = samples == nullptr ? "" : samples->name;  // whose attributes may be labels, too
    if (!of.empty()) add_attributes_of(locations_.front(), of, arrays_);
    for (const Location& location : locations_) {
      std::vector<FileArray> here = arrays_at(location, names, packing_);
      if (!of.empty()) add_attributes_of(location, of, here);
      compare(location, here);
    }
    std::erase_if(arrays_, [&](const FileArray& array) { return dropped_.contains(array.name); });
  }

  bool alike() const { return unlike_.empty(); }
  /// The first array that differs in shape, or is of numbers at some alone, or is not at all of the locations; "": none
  /// is.
  const std::string& unlike() const { return unlike_; }
  const std::vector<FileArray>& arrays() const { return arrays_; }
  /// Names of arrays whose few numbers are the same at all of the locations: coordinates, and hardly labels.
  std::vector<std::string> constants() const {
    std::vector<std::string> names;
    for (const FileArray& array : arrays_)
      if (is_number(array) && !array.attribute && !unlike_arrays_.contains(array.name) && !varies(array))
        names.push_back(array.name);
    return names;
  }
  /// Attributes that some locations lack, or have otherwise, with one that does: no labels, and nothing else is known.
  std::vector<std::string> dropped() const {
    std::vector<std::string> lines;
    for (const auto& [name, why] : dropped_) lines.push_back(fmt::format("'{}' is not used: {}", name, why));
    return lines;
  }

  /// Whether its numbers are not the same at all of the locations.
  bool varies(const FileArray& array) const {
    if (elements(array) > kSmall) return true;
    const std::vector<std::byte> first = numbers(array, locations_.front());
    return std::ranges::any_of(locations_, [&](const Location& location) { return numbers(array, location) != first; });
  }
  /// Whether its word is not the same at all of the locations, and that of some others at one: names of things and
  /// dates do not repeat.
  bool names_classes(const FileArray& array) const {
    const std::set<std::string> words = words_of(array);
    return words.size() > 1 && words.size() < locations_.size();
  }
  /// What is to be done about a text that differs and is a number in all of the locations; "": there is none.
  std::string text_of_number() const {
    for (const FileArray& array : arrays_) {
      if (!is_word(array)) continue;
      const std::set<std::string> words = words_of(array);
      if (words.size() > 1 && std::ranges::all_of(words, is_number_text))
        return fmt::format("'{}' is a text, such as \"{}\", and no number: store it as a number", array.name,
                           *words.begin());
    }
    return "";
  }

 private:
  std::set<std::string> words_of(const FileArray& array) const {
    std::set<std::string> words;
    for (const Location& location : locations_) words.insert(rows_of(array, location)->front()->words(0, 1).front());
    return words;
  }

  // An attribute may be for people; a data set that one location lacks says that the locations are not alike.
  void compare(const Location& location, const std::vector<FileArray>& here) {
    const auto differs = [&](const FileArray& array, const std::string& how) {
      if (array.attribute) {
        dropped_.try_emplace(array.name, how);
      } else {
        unlike_arrays_.insert(array.name);
        if (unlike_.empty()) unlike_ = how;
      }
    };
    for (FileArray& array : arrays_) {
      const auto same_name = std::ranges::find(here, array.name, &FileArray::name);
      if (same_name == here.end())
        differs(array, fmt::format("{} has no '{}', and {} has one", text_of(location), array.name,
                                   text_of(locations_.front())));
      else if (!same_kind(*same_name, array))
        differs(array, kind_text(location, *same_name) + ", and " + kind_text(locations_.front(), array));
      else
        join_facts(array, *same_name);
    }
  }

  std::shared_ptr<const OpenRows> rows_of(const FileArray& array, const Location& location) const {
    DatasetSpec spec;
    spec.files = {location.path};
    spec.packing = array.unclear ? PackingRule::ignore : packing_;
    spec.rows = RowsBy::files;
    const bool attribute = array.name.starts_with('@');
    const std::string name = attribute ? location.group + array.name : within(location.group, array.name);
    return RowSources(spec, nullptr, {name}, {.words = array.words}).open(0);
  }
  // As bytes; numbers of several types as those of doubles.
  std::vector<std::byte> numbers(const FileArray& array, const Location& location) const {
    const auto open = rows_of(array, location);
    const RowSource& rows = *open->front();
    std::vector<std::byte> values(static_cast<std::size_t>(rows.row_bytes()));
    rows.read(0, 1, values.data());
    if (array.type != ElementType::float64 || rows.type() == ElementType::float64) return values;
    std::vector<std::byte> doubles(static_cast<std::size_t>(rows.row_elements()) * sizeof(double));
    for (Index i = 0; i < rows.row_elements(); ++i) {
      const double number = number_at(rows.type(), values.data(), i);
      std::memcpy(doubles.data() + static_cast<std::size_t>(i) * sizeof number, &number, sizeof number);
    }
    return doubles;
  }

  std::vector<Location> locations_;
  PackingRule packing_;
  std::vector<FileArray> arrays_;
  std::string unlike_;
  std::set<std::string> unlike_arrays_;
  std::map<std::string, std::string> dropped_;
};

template <class All>
std::vector<Location> some_of(const All& all, const auto& location_of) {
  const Index count = std::ssize(all), some = std::min(count, kCompared);
  std::vector<Location> locations;
  for (Index i = 0; i < some; ++i)
    locations.push_back(location_of(all[static_cast<std::size_t>(some == 1 ? 0 : i * (count - 1) / (some - 1))]));
  return locations;
}

/// What of one sample may be its labels.
std::vector<const FileArray*> labels_beside(const FileArray& samples, const Compared& compared,
                                            const std::string& given) {
  const auto serves = [&](const FileArray& array) {
    if (!given.empty()) return array.name == given;
    return is_word(array) ? compared.names_classes(array) : compared.varies(array);
  };
  std::vector<const FileArray*> found;
  for (const FileArray& array : compared.arrays()) {
    if (&array == &samples || !(is_number(array) || is_word(array))) continue;
    if (given.empty() && is_another_sample(array, samples, compared.arrays())) continue;
    if (serves(array)) found.push_back(&array);
  }
  return found;
}

/// What the locations are that may be samples.
enum class LocationKind { files, groups, counted_groups };

/// Whether an array has the samples' positions, as a mask has those of its image.
bool has_positions_of(const FileArray& samples, const FileArray& array) {
  return array.shape.size() > 1 && samples.shape.size() > 1 &&
         std::equal(array.shape.begin(), array.shape.begin() + 2, samples.shape.begin());
}

/// Whether one of them has a row for each step along the samples' first axis, so that this counts samples. Another that
/// is named like labels, and has none, speaks against it. The mask of an image in a counted group ("case_7"), or of one
/// without channels in a file, has positions and no rows.
bool count_rows(const FileArray& samples, const std::vector<const FileArray*>& labels, LocationKind kind) {
  const auto along = [&](const FileArray* array) {
    const bool mask = has_positions_of(samples, *array) &&
                      (kind == LocationKind::counted_groups ||
                       (kind == LocationKind::files && samples.shape.size() == 2 && array->shape.size() == 2));
    return !mask && !array->attribute && samples.shape.front() > 1 && !array->shape.empty() &&
           array->shape.front() == samples.shape.front();
  };
  const auto named = [](const FileArray* array) { return is_like_labels(array->called()); };
  const bool rows = std::ranges::any_of(labels, along);
  const bool named_rows =
      std::ranges::any_of(labels, [&](const FileArray* array) { return along(array) && named(array); });
  const bool named_others =
      std::ranges::any_of(labels, [&](const FileArray* array) { return !along(array) && named(array); });
  return rows && (named_rows || !named_others);
}

/// The arrays as those of all samples, if each location is a sample; none if not.
std::vector<FileArray> of_all(const Compared& compared, Index samples, const GivenNames& given, LocationKind kind) {
  if (!compared.alike()) return {};
  const FileArray* const largest_one = largest(compared.arrays(), given.samples);
  if (largest_one == nullptr) return {};
  const auto labels = labels_beside(*largest_one, compared, given.labels);
  if (labels.empty() || count_rows(*largest_one, labels, kind)) return {};
  if (given.labels.empty() && is_array_per_sample(*largest_one, compared.arrays())) return {};
  std::vector<FileArray> arrays{*largest_one};
  for (const FileArray* array : labels) arrays.push_back(*array);
  for (FileArray& array : arrays) array.shape.insert(array.shape.begin(), samples);
  return arrays;
}

/// A number or a word of each sample, as an array of all. Words that all differ are names of samples, and words that
/// are all the same say nothing, but where they are called so: only a few samples were looked at.
std::vector<FileArray> columns_of(const Compared& compared, Index samples) {
  std::vector<FileArray> columns;
  for (const FileArray& array : compared.arrays()) {
    const bool named = is_like_split(array.called()) || is_like_group(array.called());
    const bool number = is_number(array) && elements(array) == 1;
    const bool words = array.words && (named || (is_word(array) && compared.names_classes(array)));
    if (!number && !words) continue;
    columns.push_back(array);
    columns.back().shape.insert(columns.back().shape.begin(), samples);
  }
  return columns;
}

/// The groups of all files that fit, as a run would find them. DataError where it would refuse.
Index count_groups(const std::vector<std::string>& paths, const std::string& pattern, const std::string& samples,
                   std::set<std::string>& first) {
  DatasetSpec spec;
  spec.packing = PackingRule::ignore;  // groups are counted, not numbers
  spec.files = paths;
  spec.samples = samples;
  spec.rows = RowsBy::groups;
  spec.groups = pattern;
  const RowSources sources(spec, nullptr, {samples}, {});
  Index count = 0;
  for (std::size_t file = 0; file < paths.size(); ++file) {
    GroupsAsRows groups;
    sources.open(file, groups);
    count += std::ssize(*groups.names);
    if (file == 0) first.insert(groups.names->begin(), groups.names->end());
  }
  return count;
}

/// Whether an array beside the groups has more numbers than all of them.
bool is_outweighed(const GroupFamily& family, const FileArray& samples, const std::vector<FileArray>& all) {
  const std::set<std::string> groups(family.groups.begin(), family.groups.end());
  const auto inside = [&](const FileArray& array) {
    std::size_t end = 0;
    for (std::size_t level = 0; level <= family.depth && end != std::string::npos; ++level)
      end = array.name.find('/', end + (level == 0 ? 0 : 1));
    return groups.contains(array.name.substr(0, end));
  };
  const Index most = elements(samples);  // with an axis of all samples
  return std::ranges::any_of(all, [&](const FileArray& array) { return elements(array) > most && !inside(array); });
}

/// Tells of groups that fit, and of those that hold samples, too, and do not.
void tell_of_groups(const FileNames& names, const std::set<std::string>& used, RowLayout& layout) {
  layout.reasons.push_back(fmt::format("each of {} groups that fit \"{}\" is one sample: they hold the same arrays",
                                       layout.arrays.front().rows(), layout.groups));
  if (!layout.validation_groups.empty())
    layout.reasons.push_back(fmt::format("those that fit \"{}\" validate", layout.validation_groups));
  if (const std::string more = unused_groups(names, layout.arrays.front().name, used); !more.empty())
    layout.reasons.push_back(more);
}

/// Whether groups have one name and numbers: "case_0", "case_1", ... but not "train", "val".
bool are_counted(const std::vector<std::string>& groups) {
  const auto without_number = [](const std::string& group) {
    std::string name = group.substr(group.rfind('/') + 1);
    const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const bool numbered = std::ranges::any_of(name, digit);
    std::erase_if(name, digit);
    return std::pair(numbered, name);
  };
  return groups.size() > 2 && std::ranges::all_of(groups, [&](const std::string& group) {
           return without_number(group) == std::pair(true, without_number(groups.front()).second);
         });
}

bool are_samples(const std::vector<std::string>& paths, const GroupFamily& family, const std::vector<FileArray>& all,
                 const FileNames& names, const GivenNames& given, RowLayout& layout) {
  const Compared compared(some_of(family.groups,
                                  [&](const std::string& group) {
                                    return Location{paths.front(), group};
                                  }),
                          family.names, given);
  if (!compared.unlike().empty() && layout.why_not.empty()) {
    layout.why_not = "the groups beside each other are no samples, of which all are alike: " + compared.unlike();
    for (const std::string& name : compared.constants())
      for (const std::string& group : family.groups) layout.constants.insert(within(group, name));
  }
  std::vector<FileArray> arrays =
      of_all(compared, std::ssize(family.groups), given,
             are_counted(family.groups) ? LocationKind::counted_groups : LocationKind::groups);
  if (arrays.empty() && compared.alike() && layout.text_labels.empty()) layout.text_labels = compared.text_of_number();
  if (arrays.empty() || is_outweighed(family, arrays.front(), all)) return false;
  const GroupParts parts = split_groups(family.groups);
  const std::string groups = pattern_of(parts.train), validation = pattern_of(parts.validation);
  std::set<std::string> used, held;
  try {
    const Index count = count_groups(paths, groups, arrays.front().name, used);
    for (FileArray& array : arrays) array.shape.front() = count;
    if (!validation.empty()) count_groups(paths, validation, arrays.front().name, held);
  } catch (const DataError&) {  // some groups are no samples
    return false;
  }
  // A pattern may fit more than was meant.
  if (std::ranges::any_of(parts.validation, [&](const std::string& group) { return used.contains(group); }))
    return false;
  used.merge(held);
  layout.rows = RowsBy::groups;
  layout.groups = groups;
  layout.first_group = family.groups.front();
  layout.validation_groups = validation;
  layout.arrays = std::move(arrays);
  layout.columns = columns_of(compared, layout.arrays.front().rows());
  tell_of_groups(names, used, layout);
  for (const std::string& line : compared.dropped()) layout.reasons.push_back(line);
  return true;
}

bool find_groups(const std::vector<std::string>& paths, const std::vector<FileArray>& all, const FileNames& names,
                 const GivenNames& given, RowLayout& layout) {
  return std::ranges::any_of(likely_families(names.datasets), [&](const GroupFamily& family) {
    return are_samples(paths, family, all, names, given, layout);
  });
}

bool find_files(const std::vector<std::string>& paths, const FileNames& names, const GivenNames& given,
                RowLayout& layout) {
  if (paths.size() < 2) return false;
  const Compared compared(some_of(paths,
                                  [&](const std::string& path) {
                                    return Location{path, ""};
                                  }),
                          names.datasets, given);
  if (layout.why_not.empty() && !compared.unlike().empty()) {
    layout.why_not = "nor is each file a sample, of which all are alike: " + compared.unlike();
    for (const std::string& name : compared.constants()) layout.constants.insert(name);
  }
  std::vector<FileArray> arrays = of_all(compared, std::ssize(paths), given, LocationKind::files);
  if (arrays.empty() && compared.alike() && layout.text_labels.empty()) layout.text_labels = compared.text_of_number();
  if (arrays.empty()) return false;
  layout.rows = RowsBy::files;
  layout.columns = columns_of(compared, std::ssize(paths));
  layout.arrays = std::move(arrays);
  layout.reasons.push_back(
      fmt::format("each of {} files is one sample: no array has labels along the first axis of '{}'", paths.size(),
                  layout.arrays.front().name));
  for (const std::string& line : compared.dropped()) layout.reasons.push_back(line);
  return true;
}

}  // namespace

RowLayout find_rows(const std::vector<std::string>& paths, const FileNames& names, std::vector<FileArray> first,
                    const GivenNames& given) {
  RowLayout layout;
  if (find_groups(paths, first, names, given, layout) || find_files(paths, names, given, layout)) return layout;
  layout.arrays = std::move(first);
  return layout;
}

}  // namespace mrmf
