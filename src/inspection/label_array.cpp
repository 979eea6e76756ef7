// The labels of a file: which array they are, and where they lie; declared in dataset_guess.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "io/rows/labels.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

// How labels lie beside samples: one or more for each, or for each of its positions.

namespace {

Shape shape_of(const FileArray& samples, const AxisOrder& order) {
  const std::vector<Index> sizes = channels_last(samples.shape, order, "'" + samples.name + "'");
  if (sizes.size() < 2 || sizes.size() > 5)
    throw DataError(
        fmt::format("'{}' has {} axes; samples are (n, features) or (n, 1 to 3 axes of positions, channels)",
                    samples.name, sizes.size()));
  return sample_shape(sizes);
}

// Whether labels of several axes have the samples' positions, and channels behind these or none.
bool have_positions(const FileArray& labels, const Shape& sample, const AxisOrder& order) {
  const bool move = labels_move(labels.shape, sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape, order, labels.name) : labels.shape;
  const std::size_t spatial = static_cast<std::size_t>(sample.axes), axes = all.size() - 1;
  return spatial > 0 && (axes == spatial || axes == spatial + 1) &&
         std::equal(sample.spatial.end() - sample.axes, sample.spatial.end(), all.begin() + 1);
}

// What to do about labels that have the samples' positions but for an axis of length 1; "" where they have not.
std::string drop_text(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  for (std::size_t axis = 1; axis < labels.shape.size() && labels.shape.size() > 3; ++axis) {
    if (labels.shape[axis] != 1) continue;
    FileArray less = labels;
    less.shape.erase(less.shape.begin() + std::ptrdiff_t(axis));
    if (labels_fit(less, samples, axes))
      return fmt::format("without its axis of length 1 it has the samples' positions: drop it, such as y.squeeze({})",
                         axis);
  }
  return "";
}

}  // namespace

LabelLayout layout_of(const FileArray& labels, const FileArray& samples, const std::string& path,
                      const std::string& axes) {
  const AxisOrder order = parse_axes(axes);
  const Shape sample = shape_of(samples, order);
  const std::size_t count = labels.shape.size(), spatial = static_cast<std::size_t>(sample.axes);
  if (!labels_fit(labels, samples, axes)) {
    if (const std::string drop = drop_text(labels, samples, axes); !drop.empty())
      throw DataError(fmt::format("{}: '{}' ({}) does not fit '{}' ({}); {}", path, labels.name,
                                  fmt::join(labels.shape, ", "), samples.name, fmt::join(samples.shape, ", "), drop));
    throw DataError(
        fmt::format("{}: '{}' ({}) does not fit '{}' ({}): labels per position have the samples' positions, and labels "
                    "per sample are stored as ({}, {}); store them so, or name others with --labels",
                    path, labels.name, fmt::join(labels.shape, ", "), samples.name, fmt::join(samples.shape, ", "),
                    labels.rows(), labels.per_row()));
  }
  LabelLayout layout;
  layout.positions = count > 2;
  const bool last_axis = layout.positions ? count == spatial + 2 : count == 2;
  const bool first = layout.positions && last_axis && labels_move(labels.shape, sample, order);
  layout.width = !last_axis ? 1
                 : first    ? labels.shape[static_cast<std::size_t>(order.channel) + 1]
                            : labels.shape.back();
  if (first) {
    Shape label = sample;
    label.channels = layout.width;
    layout.moves = channel_box(label, order);
  }
  layout.single = spatial == 1 && count == 2 && layout.width > 1 && layout.width == sample.spatial[2];
  return layout;
}

bool labels_fit(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  if (labels.shape.size() <= 2) return true;
  const AxisOrder order = parse_axes(axes);
  return have_positions(labels, shape_of(samples, order), order);
}

// Which array of a file is the labels.

namespace {

constexpr std::size_t kMostNamed = 12;  // names in a line for people

std::string shown_array(const FileArray& array) {
  return fmt::format("'{}' ({})", array.name, fmt::join(array.shape, ", "));
}

// Coordinates and dimensions of netCDF number the positions of others.
bool may_be_labels(const FileArray& array) {
  return (array.type != ElementType::other || array.words) && array.rows() > 1 && !array.scale;
}

// Whether both are the same array of groups that are only counted: "s00/data" and "s01/data".
bool are_of_counted_groups(const FileArray& one, const FileArray& other) {
  const auto without_digits = [](std::string name) {
    std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
    return name;
  };
  const auto own = [](const FileArray& array) { return array.name.substr(array.name.rfind('/') + 1); };
  return one.shape == other.shape && one.name.find('/') != std::string::npos && own(one) == own(other) &&
         without_digits(one.name) == without_digits(other.name);
}

std::string group_of(const FileArray& array) { return array.name.substr(0, array.name.rfind('/') + 1); }

/// What is known of labels by their name, beside the samples'.
struct LabelRole {
  bool other_split, counts_rows;
  bool operator==(const LabelRole&) const = default;
  auto operator<=>(const LabelRole&) const = default;
};

LabelRole role_of(const FileArray& labels, const FileArray& samples) {
  const bool marks = labels.per_row() == 1 && (is_training_mark(labels.called()) || is_held_out_mark(labels.called()));
  return {is_for_training(labels.name) != is_for_training(samples.name),
          marks || is_like_row_numbers(labels.called()) || is_like_group(labels.called())};
}

// Other arrays with as many rows, the likeliest first: rather one whose name is that of the samples with a word for
// labels in it, then one named like labels, then, of attributes, one of fractional numbers, and one of the sample
// rather than of its array, then one that lies in the same file, then the one with fewer numbers per row, then one of
// the same group.
std::vector<const FileArray*> label_candidates(const std::vector<FileArray>& arrays, const FileArray& samples,
                                               const DatasetGuess& guess) {
  std::vector<const FileArray*> candidates;
  for (const FileArray& array : arrays)
    if (may_be_labels(array) && array.name != samples.name && array.rows() == samples.rows() &&
        array.name != guess.split_column && !guess.split_arrays.has(array.name) &&
        !are_of_counted_groups(array, samples) && !is_another_sample(array, samples, arrays))
      candidates.push_back(&array);
  std::ranges::stable_sort(candidates, {}, [&](const FileArray* array) {
    return std::tuple(role_of(*array, samples), array->ancillary, !is_named_beside(array->name, samples.name),
                      !is_like_labels(array->called()), array->unclear, array->words,
                      array->attribute && array->integer(), array->attribute && !array->name.starts_with('@'),
                      array->file != samples.file, array->per_row(), group_of(*array) != group_of(samples));
  });
  return candidates;
}

/// An array from which there is nothing to learn, and why.
struct Useless {
  const FileArray* array;
  std::string why;
  bool missing = false;  ///< Learnable::missing
};

std::string text_of_useless(const std::vector<Useless>& all) {
  std::vector<std::string> texts;
  for (const Useless& one : all) {
    if (texts.size() == kMostNamed) break;
    texts.push_back("'" + one.array->name + "' " + one.why);
  }
  if (all.size() > texts.size()) texts.push_back(fmt::format("and {} more", all.size() - texts.size()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// That what is named like labels holds none, so that something else is taken for them; "" where it is not so.
std::string missing_labels_text(const std::vector<Useless>& all, const FileArray& samples, const FileArray& taken) {
  const auto are_named_so = [&](const FileArray& array) {
    return is_like_labels(array.name) || is_named_beside(array.name, samples.name);
  };
  if (are_named_so(taken)) return "";
  const auto found =
      std::ranges::find_if(all, [&](const Useless& one) { return one.missing && are_named_so(*one.array); });
  if (found == all.end()) return "";
  return fmt::format(
      "the labels '{}' are missing everywhere, so '{}' is taken for the labels: fill them in, or name "
      "others with --labels",
      found->array->name, taken.name);
}

// The first candidate from which something may be learnt. All that are of the same split, and no row numbers, may be
// meant, too: of several labels the file does not say which are to be learnt. Times and others at one distance count
// samples rather than say what is in them, unless they are named like labels, and names of all samples are no classes.
Choice choose_labels(const std::vector<const FileArray*>& candidates, const FileArray& samples,
                     const std::vector<std::string>& paths, const DatasetGuess& guess, std::vector<Useless>& useless) {
  Choice choice;
  const FileArray* unlikely = nullptr;
  bool spaced = false, fractions = false;  // that one's numbers
  std::vector<const FileArray*> useful;
  for (const FileArray* const array : candidates) {
    const FileArray* const first = choice.best != nullptr ? choice.best : unlikely;
    if (first != nullptr && role_of(*array, samples) != role_of(*first, samples)) break;
    const Learnable use = array->no_label.empty() ? learnable_from(*array, paths, guess) : Learnable{array->no_label};
    const bool coordinate = use.spaced && is_like_coordinate(array->called());
    if (!use.nothing.empty() || coordinate) {
      useless.push_back(
          {array, coordinate ? "has its numbers at one distance, as coordinates have" : use.nothing, use.missing});
      continue;
    }
    const bool rather_not = use.unlikely && (array->words || !is_like_labels(array->called()));
    if (!rather_not) useful.push_back(array);
    const FileArray*& place = rather_not ? unlikely : choice.best;
    if (place != nullptr) continue;
    place = array;
    if (rather_not) spaced = use.spaced, fractions = use.fractions;
  }
  // A number for each sample is likelier than what may be another sample, and is not named like labels.
  if (fractions && choice.best != nullptr && choice.best->per_row() > unlikely->per_row() &&
      !is_like_labels(choice.best->called()) && !is_named_beside(choice.best->name, samples.name))
    choice.best = nullptr;
  if (choice.best == nullptr) choice.best = unlikely, choice.spaced = spaced;
  choice.add_others(useful, [&](const FileArray& array) {
    return !array.words && !array.unclear && is_only_held_out(array.name) == is_only_held_out(choice.best->name) &&
           (!array.ancillary || choice.best->ancillary) && labels_fit(array, samples, guess.axes);
  });
  return choice;
}

}  // namespace

bool holds_rows_of_numbers(const FileArray& array) {
  return array.type != ElementType::other && array.rows() > 1 && array.per_row() > 0 && !array.scale;
}

bool lies_turned(const FileArray& array, Index rows) {
  return array.shape.size() > 1 && array.rows() != rows && array.shape.back() == rows && rows > 1;
}

std::string why_no_numbers(const FileArray& array) {
  if (array.type_name == "reference")
    return fmt::format(
        "{} holds references to other arrays, as MATLAB's cells do; store what they refer to as one array",
        shown_array(array));
  if (array.type_name == "compound")
    return fmt::format("{} is a table of compound elements; store its columns as arrays of numbers",
                       shown_array(array));
  return fmt::format("{} holds {} elements; samples are numbers", shown_array(array), array.type_name);
}

std::string why_no_labels(const std::vector<FileArray>& arrays, const FileArray& samples) {
  for (const FileArray& array : arrays)
    if (array.name != samples.name && !array.scale && lies_turned(array, samples.rows()))
      return fmt::format("{} has the {} rows of {} in its last axis; store it transposed, with these first",
                         shown_array(array), samples.rows(), shown_array(samples));
  for (const FileArray& array : arrays)
    if (array.name != samples.name && holds_rows_of_numbers(array) && lies_turned(samples, array.rows()))
      return fmt::format(
          "{} has the {} rows of {} in its last axis; store it with these first, such as "
          "numpy.moveaxis(x, -1, 0)",
          shown_array(samples), array.rows(), shown_array(array));
  for (const FileArray& array : arrays)
    if (array.rows() == samples.rows() && array.type == ElementType::other && !array.words && !array.scale)
      return array.type_name == "reference" || array.type_name == "compound"
                 ? why_no_numbers(array)
                 : fmt::format(
                       "{} has as many rows as {}, but holds {} elements; store classes as whole numbers 0, 1, 2 and "
                       "so on",
                       shown_array(array), shown_array(samples), array.type_name);
  constexpr Index few = 8;
  for (const FileArray& array : arrays)
    if (array.name != samples.name && array.type != ElementType::other && !array.scale && samples.shape.size() > 1 &&
        array.shape.size() == 2 && array.shape.back() == samples.shape.back() && array.shape.back() >= few &&
        array.shape.front() < array.shape.back())
      return fmt::format(
          "{} and {} have the same size in their last axes, where MATLAB and Fortran keep rows; if these are the rows, "
          "store both with them first, such as numpy.moveaxis(x, -1, 0)",
          shown_array(samples), shown_array(array));
  return "";
}

std::string some_names(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMostNamed);
  const std::string text = fmt::format("'{}'", fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), "', '"));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::string list_of(const std::vector<FileArray>& arrays) {
  std::vector<std::string> texts;
  for (const FileArray& array : arrays) {
    if (texts.size() == kMostNamed) break;
    texts.push_back(shown_array(array) + " of " + array.type_name);
  }
  if (arrays.size() > texts.size()) texts.push_back(fmt::format("and {} more", arrays.size() - texts.size()));
  return texts.empty() ? "no array" : fmt::format("{}", fmt::join(texts, ", "));
}

void Choice::tell(const std::string& as, std::vector<std::string>& reasons) const {
  if (others.empty()) return;
  reasons.push_back(fmt::format("'{}' is taken for the {}; {} would do as well: choose with --{}", best->name, as,
                                some_names(others), as));
}

const FileArray& find_labels(const std::vector<FileArray>& arrays, const FileArray& samples,
                             const std::vector<std::string>& paths, const std::string& hint, DatasetGuess& guess) {
  const std::string& path = paths.front();
  const std::string per_sample = guess.rows == RowsBy::axis ? array_per_sample_text(samples, arrays) : "";
  if (!per_sample.empty() && is_array_per_sample(samples, arrays)) throw DataError(path + ": " + per_sample);
  const auto candidates = label_candidates(arrays, samples, guess);
  std::vector<Useless> useless;
  const Choice choice = choose_labels(candidates, samples, paths, guess, useless);
  if (choice.best != nullptr) {
    choice.tell("labels", guess.reasons);
    if (choice.spaced)
      guess.reasons.push_back(
          fmt::format("'{}' has its numbers at one distance, as coordinates and times have; if it is no label, name "
                      "others with --labels",
                      choice.best->name));
    if (choice.best->ancillary)
      guess.reasons.push_back(fmt::format(
          "'{}' tells of the numbers of another array, which has it in its attribute ancillary_variables; if that is "
          "not to be learnt, name others with --labels",
          choice.best->name));
    if (!useless.empty()) guess.reasons.push_back("passed over as labels: " + text_of_useless(useless));
    if (const std::string instead = missing_labels_text(useless, samples, *choice.best); !instead.empty())
      guess.reasons.push_back(instead);
    for (const FileArray& array : arrays)
      if (array.unclear && &array != choice.best && array.name != samples.name && array.rows() == samples.rows())
        guess.reasons.push_back(
            fmt::format("'{}' is passed over: what its attributes say of its numbers cannot be "
                        "applied; --labels takes it, and tells what is wrong",
                        array.name));
    return *choice.best;
  }
  if (!useless.empty())
    throw DataError(
        fmt::format("{}: there is nothing to learn from what has the rows of '{}': {}; add labels, or name others with "
                    "--labels",
                    path, samples.name, text_of_useless(useless)));
  if (const std::string why = why_no_labels(arrays, samples); !why.empty()) throw DataError(path + ": " + why);
  if (!per_sample.empty()) throw DataError(path + ": " + per_sample);
  throw DataError(
      fmt::format("{}: '{}' looks like samples, and no other array has its {} rows to be labels; {}there are "
                  "{}; name them with --samples and --labels",
                  path, samples.name, samples.rows(), hint.empty() ? "" : hint + "; ", list_of(arrays)));
}

}  // namespace mrmf
