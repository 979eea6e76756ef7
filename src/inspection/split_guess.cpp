// Columns and lists that say what rows are for or belong to, and values of labels; declared in dataset_guess.hpp.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/rows/class_values.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split_column_and_groups.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/dataset_guess.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kFewRoles = 12;  // different values of a column that may say what rows are for

// Words as netCDF may keep them, a character each, and of which nobody can tell what rows are for.
bool may_be_characters(const FileArray& array, const FileArray& samples) {
  return array.words && array.shape.size() == 2 && array.rows() == samples.rows() && array.per_row() > 1;
}

bool is_one_number_per_row(const FileArray& array, const FileArray& samples) {
  return array.rows() == samples.rows() && array.per_row() == 1 && array.name != samples.name;
}

// The values of a column that says what rows are for, of the first file or, where samples are groups or files, of all;
// none where the array is none, and `why` then.
std::optional<SplitColumn> read_column(const FileArray& array, const std::vector<std::string>& paths,
                                       const DatasetGuess& look, std::string& why, std::size_t most = kMostRoles) {
  try {
    DatasetSpec spec;
    spec.files = paths;
    spec.packing = look.packing;
    spec.rows = look.rows;
    spec.groups = look.groups;
    std::vector<Index> rows{array.rows()};
    if (look.rows == RowsBy::axis) spec.files.resize(1);
    const RowSources sources(spec, nullptr, {array.name}, {.words = true});
    if (look.rows != RowsBy::axis) {
      rows.clear();
      for (std::size_t file = 0; file < paths.size(); ++file)
        rows.push_back(sources.at(file)->front()->shape().front());
    }
    return read_split_column(sources, rows, most);
  } catch (const DataError& error) {
    why = error.what();
    return {};
  }
}

// Which of these words, or names of numbers, say that a row validates; none unless another one says that it trains.
std::vector<std::string> validating_words(const std::vector<std::string>& words) {
  std::vector<std::string> validate;
  if (std::ranges::none_of(words, is_training_word)) return validate;
  std::ranges::copy_if(words, std::back_inserter(validate), is_validation_word);
  if (validate.empty()) std::ranges::copy_if(words, std::back_inserter(validate), is_held_out);
  return validate;
}

// How to make a split of a column that may be one of roles or of folds: which value validates, only the user knows.
std::string split_hint(const FileArray& array, const std::vector<std::string>& values) {
  const auto shown_values = [&](auto first, auto last) {
    std::vector<std::string> texts;
    for (; first != last; ++first) texts.push_back(array.words ? "\"" + *first + "\"" : *first);
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  // Where there are three, the middle one validates and the last one tests, unless they are folds.
  const bool roles = are_roles(array.name, values);
  const auto held = std::ranges::find_if(values, [&](const std::string& v) { return array.words && is_held_out(v); });
  if (is_like_fold(array.name) && held == values.end())
    return fmt::format(
        "'{0}' holds {1}: if these are folds, set split = {{ by = \"folds\", column = \"{0}\" }}, and train all of "
        "them with mrmf train --folds",
        array.name, fmt::join(values, ", "));
  const auto validates = held != values.end() ? held : values.end() - (roles ? 2 : 1);
  const bool first_trains = validates != values.begin();
  return fmt::format(
      "'{}' holds {}: if these say what rows are for, set split = {{ column = \"{}\", validation = [{}], train = [{}] "
      "}}",
      array.name, fmt::join(values, ", "), array.name, shown_values(validates, validates + 1),
      first_trains ? shown_values(values.begin(), validates) : shown_values(validates + 1, values.end()));
}

// What to do about columns beside the one that is taken for the split.
std::string others_text(const std::string& taken, const std::vector<std::string>& others, bool test_trains) {
  const std::string instead = test_trains
                                  ? "; the test's rows train unless one column of the words \"train\", \"val\" and "
                                    "\"test\" says what rows are for, with split = { column = ..., validation = "
                                    "[\"val\"] }"
                                  : ": name it in data.split.column instead if that is meant";
  return fmt::format("'{}' is taken for the split; '{}' may say what rows are for, too{}", taken,
                     fmt::join(others, "', '"), instead);
}

// Whole numbers of groups may be stored as floats, since a table had gaps somewhere.
bool is_whole(const std::string& number) { return number.find_first_not_of("-0123456789") == std::string::npos; }

// Which of the arrays lists or marks rows of a part: by their names, whatever is in them. `more`: others of a part that
// has one.
SplitArrays named_like_parts(const std::vector<FileArray>& arrays, const FileArray& samples, bool marks,
                             std::vector<std::string>& more) {
  SplitArrays found;
  const auto first = [&](std::string& name, const FileArray& array) {
    if (name.empty())
      name = array.name;
    else
      more.push_back(array.name);
  };
  for (const FileArray& array : arrays) {
    const bool numbers =
        array.type != ElementType::other && (array.per_row() == 1 || array.rows() == 1) && array.name != samples.name;
    const Index count = array.rows() * array.per_row();
    const bool fits = marks ? count == samples.rows() && (is_training_mark(array.name) || is_held_out_mark(array.name))
                            : count <= samples.rows() && is_like_row_list(array.name);
    if (!numbers || !fits) continue;
    first(is_for_training(array.name) ? found.train : is_for_tests(array.name) ? found.test : found.validation, array);
  }
  if (found.validation.empty()) std::swap(found.validation, found.test);
  return found.train.empty() || found.validation.empty() ? SplitArrays{} : found;
}

// Where such arrays name every row once at most, in all files, that is what they are.
void find_split_arrays(const std::vector<FileArray>& arrays, const FileArray& samples,
                       const std::vector<std::string>& paths, DatasetGuess& look) {
  constexpr std::size_t kMostFiles = 256;  // with more, each list would take long to look at
  if (paths.size() > kMostFiles) return;
  for (const bool marks : {false, true}) {
    std::vector<std::string> more;
    const SplitArrays found = named_like_parts(arrays, samples, marks, more);
    if (found.empty()) continue;
    std::vector<std::string> names{found.train, found.validation};
    if (!found.test.empty()) names.push_back(found.test);
    DatasetSpec spec;
    spec.files = paths;
    spec.packing = look.packing;
    try {
      const RowSources of_samples(spec, nullptr, {samples.name}, {});
      std::vector<Index> rows;
      for (std::size_t file = 0; file < paths.size(); ++file)
        rows.push_back(of_samples.at(file)->front()->shape().front());
      read_split_arrays(RowSources(spec, nullptr, names, {.words = true}), rows);
      look.split_arrays = found;
      if (!more.empty())
        look.reasons.push_back(fmt::format(
            "{} may say what rows are for, too: name others in data.split if they are meant", some_names(more)));
      return;
    } catch (const DataError& error) {
      look.no_split_arrays =
          fmt::format("'{}' are not taken for rows of the split: {}", fmt::join(names, "', '"), error.what());
    }
  }
}

}  // namespace

void find_split_column(const std::vector<FileArray>& arrays, const FileArray& samples,
                       const std::vector<std::string>& paths, DatasetGuess& look) {
  if (look.rows == RowsBy::axis) find_split_arrays(arrays, samples, paths, look);
  if (!look.split_arrays.empty()) return;
  const bool held_out_samples = std::ranges::any_of(
      arrays, [](const FileArray& array) { return is_only_held_out(array.called()) && array.per_row() > 1; });
  const bool several_marks = std::ranges::any_of(arrays, [&](const FileArray& array) {
    return is_one_number_per_row(array, samples) && is_held_out_mark(array.called());
  });
  std::vector<std::string> told, others;
  std::optional<bool> taken_for_tests;  // whether the mark that is taken for the split marks the test's rows
  bool test_trains = false;             // another one marks the test's rows
  std::vector<const FileArray*> columns;
  for (const FileArray& array : arrays) columns.push_back(&array);
  std::ranges::stable_partition(columns, [](const FileArray* array) { return !is_for_tests(array->called()); });
  for (const FileArray* const column_array : columns) {
    const FileArray& array = *column_array;
    const bool named = is_like_split(array.called()), characters = named && may_be_characters(array, samples);
    if (!characters && !is_one_number_per_row(array, samples)) continue;
    if (array.type == ElementType::other && !array.words) continue;
    const bool trains = is_training_mark(array.called());  // all other rows validate, unless others are marked, too
    const bool marks = (trains && !several_marks) || (is_like_mark(array.called()) && !is_like_labels(array.called()));
    const bool may_mark = array.integer() || trains || is_held_out_mark(array.called());  // floats may be anything else
    const bool called = array.type_name == "enumeration" && !is_like_labels(array.called());
    if (!array.words && !named && !called && !(may_mark && marks && !held_out_samples)) continue;
    std::string why;
    const std::optional<SplitColumn> column = read_column(array, paths, look, why);
    if (!column && (named || trains || is_held_out_mark(array.called())))
      told.push_back(fmt::format("'{}' does not say what rows are for: {}", array.name, why));
    if (!column) continue;
    const bool few = column->values.size() > 1 && column->values.size() <= kFewRoles;
    const auto& values = column->values;
    const std::vector<std::string> validate = validating_words(array.words ? values : column->names);
    if (!validate.empty() && look.split_column.empty()) {
      look.split_column = array.name;
      look.split_validation = validate;
    } else if (!validate.empty()) {
      others.push_back(array.name);
    } else if (array.words) {
      if (named && few) told.push_back(split_hint(array, values));
    } else if (marks && values == std::vector<std::string>{"0", "1"} && look.split_column.empty()) {
      look.split_column = array.name;
      if (trains && !several_marks) look.split_validation = {"0"};
      if (!trains) taken_for_tests = is_for_tests(array.called());
    } else if (few && (named || (marks && array.integer()))) {
      if (marks && !trains && taken_for_tests && *taken_for_tests != is_for_tests(array.called())) test_trains = true;
      told.push_back(split_hint(array, values));
      others.push_back(array.name);
    }
  }
  if (look.split_column.empty()) {
    look.reasons.insert(look.reasons.end(), told.begin(), told.end());
  } else if (!others.empty()) {
    look.reasons.push_back(others_text(look.split_column, others, test_trains));
  }
}

void find_group_column(const std::vector<FileArray>& arrays, const FileArray& samples, const FileArray& labels,
                       const std::vector<std::string>& paths, DatasetGuess& look) {
  constexpr std::size_t kFewest = 3,
                        kMany = 10;  // groups that can be told apart from roles; that a split may be made of
  std::string hint;
  bool hint_named = false;
  for (const FileArray& array : arrays) {
    const bool named = is_like_group(array.called());
    std::string why;
    if (named && may_be_characters(array, samples) && !read_column(array, paths, look, why))
      look.reasons.push_back(fmt::format("'{}' does not say what rows belong to: {}", array.name, why));
    if (!is_one_number_per_row(array, samples) || array.name == labels.name) continue;
    if (!array.words && (array.type == ElementType::other || !named)) continue;
    if (is_like_labels(array.called()) || is_like_split(array.called())) continue;
    const auto half = static_cast<std::size_t>(samples.rows() / 2);
    const std::optional<SplitColumn> column = read_column(array, paths, look, why, std::max<std::size_t>(1, half));
    if (!column || column->values.size() < (named ? 2 : kFewest)) continue;
    if (!array.words && !std::ranges::all_of(column->values, is_whole)) continue;
    const std::string line = fmt::format(
        "'{}' has {} different values in {} rows: if rows of one belong together, such as those of a subject, keep "
        "them on one side with split = {{ by = \"groups\", column = \"{}\", validation = 0.2 }}",
        array.name, column->values.size(), samples.rows(), array.name);
    if (named && column->values.size() >= kMany && look.group_column.empty()) {
      look.group_column = array.name;
      hint = fmt::format("'{}' has {} different values in {} rows: rows of one stay on one side of the split",
                         array.name, column->values.size(), samples.rows());
      hint_named = true;
    }
    if (hint.empty() || (named && !hint_named)) hint = line, hint_named = named;
  }
  if (!hint.empty()) look.reasons.push_back(hint);
}

void LabelValues::add(float value) {
  if (!std::isfinite(value)) return;
  least = count == 0 ? value : std::min<double>(least, value);
  most = count == 0 ? value : std::max<double>(most, value);
  ++count;
  const bool is_whole = value == std::floor(value);
  whole = whole && is_whole;
  from_0_to_1 = from_0_to_1 && (value == 0 || value == 1);
  if (is_whole && value >= 0 && value < kMostCounted)
    classes.set(static_cast<std::size_t>(value));
  else if (others.size() <= kFewNumbers)
    others.insert(value);
}

void LabelValues::add_label(ConstSpan label) {
  if (!std::ranges::all_of(label, [](float value) { return std::isfinite(value); })) return;
  if (!one_hot_index(label)) {
    one_hot = false;
    if (++not_one_hot == 1) first_not_one_hot = labels;
  }
  ++labels;
  const auto [low, high] = std::ranges::minmax(label);
  const auto lows = std::ranges::count(label, low), highs = std::ranges::count(label, high);
  if (!marks) marks.emplace(low, high);
  marked = marked && highs == 1 && highs + lows == std::ssize(label) && *marks == std::pair(low, high);
}

std::vector<float> LabelValues::listed() const {
  std::vector<float> all(others.begin(), others.end());
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes.test(i)) all.push_back(static_cast<float>(i));
  std::ranges::sort(all);
  return all;
}

bool may_say_no_label(const std::string& word) {
  const std::string small = in_small_letters(word);
  return std::ranges::any_of(std::array{"nan", "na", "n/a", "none", "null"},
                             [&](const char* none) { return small == none; });
}

bool is_number_text(const std::string& word) {
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && stop == end && std::isfinite(number);
}

std::string LabelValues::odd_words() const {
  if (words.contains(""))
    return "the empty text is one of these classes; if it says that there is no label, leave out such rows";
  if (const auto none = std::ranges::find_if(words, may_say_no_label); none != words.end())
    return fmt::format("\"{}\" is one of these classes; if it says that there is no label, leave out such rows", *none);
  std::map<std::string, std::string> seen;
  for (const std::string& word : words)
    if (const auto [other, fresh] = seen.try_emplace(in_small_letters(word), word); !fresh)
      return fmt::format("'{}' and '{}' are two of these classes; if they are one, store one word for them",
                         other->second, word);
  return "";
}

}  // namespace mrmf
