#include "io/rows/split_column_and_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "io/rows/class_values.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostListed = 12;  // values in a message

// As a double where that is exact, since a float's digits are then few.
std::string number_text(ExactNumber value) {
  const auto rounded = static_cast<double>(value);
  return rounded == value ? shortest_text(rounded + 0.0) : shortest_text(value);  // the sum is never -0
}

std::optional<ExactNumber> number_of(const std::string& text) {
  ExactNumber value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string list_text(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostListed); ++i) text += (i > 0 ? ", " : "") + values[i];
  return values.size() > kMostListed ? text + ", ..." : text;
}

// The word for a value: itself, or what an enumeration calls it; "" where it has none.
std::string word_of(const SplitColumn& column, std::size_t i) {
  if (column.words) return column.values[i];
  return column.names.empty() ? "" : column.names[i];
}

// "0 (train), 1 (val)"
std::string values_text(const SplitColumn& column) {
  std::vector<std::string> texts = column.values;
  for (std::size_t i = 0; i < texts.size() && !column.names.empty(); ++i)
    if (!column.names[i].empty()) texts[i] += " (" + column.names[i] + ")";
  return list_text(texts);
}

/// Different values as they come, and which one each row has.
template <class Value>
struct Distinct {
  std::size_t most;
  std::map<Value, std::int32_t> numbers{};
  std::vector<std::int32_t> of_row{};  // by the order of coming

  void add(const Value& value, const std::string& where) {
    const auto [found, fresh] = numbers.try_emplace(value, static_cast<std::int32_t>(numbers.size()));
    if (fresh && numbers.size() > most)
      throw DataError(where + " has more than " + std::to_string(most) +
                      " different values; data.split.column wants one that says of each row what it is for");
    of_row.push_back(found->second);
  }
  void finish(SplitColumn& column, const auto& text_of) const {
    std::vector<std::int32_t> sorted(numbers.size());
    for (const auto& [value, number] : numbers) {
      sorted[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(column.values.size());
      column.values.push_back(text_of(value));
    }
    for (const std::int32_t number : of_row) column.of_row.push_back(sorted[static_cast<std::size_t>(number)]);
  }
};

void add_numbers(const RowSource& column, Distinct<ExactNumber>& distinct) {
  const Index rows = column.shape().front(), step = Index{1} << 20;
  std::vector<std::byte> raw;
  for (Index first = 0; first < rows; first += step) {
    const Index count = std::min(step, rows - first);
    raw.resize(static_cast<std::size_t>(count * column.row_bytes()));
    column.read(first, count, raw.data());
    for (Index row = 0; row < count; ++row) {
      const ExactNumber value = exact_number_at(column.type(), raw.data(), row);
      if (!std::isfinite(value))
        throw DataError(column.row_text(first + row) + " holds " +
                        (std::isnan(value) && column.packing().declared
                             ? "no number, as its attributes say (" + column.packing().text() + ")"
                             : not_finite_reason(static_cast<double>(value))) +
                        "; data.split.column wants a number or a word for each row");
      distinct.add(value, column.where());
    }
  }
}

void add_words(const RowSource& column, Distinct<std::string>& distinct) {
  const Index rows = column.shape().front(), step = Index{1} << 16;
  for (Index first = 0; first < rows; first += step)
    for (const std::string& word : column.words(first, std::min(step, rows - first)))
      distinct.add(word, column.where());
}

// What to write for a value in a configuration.
std::string key_text(const SplitColumn& column, std::size_t i) {
  const std::string word = word_of(column, i);
  return column.words || !word.empty() ? "\"" + word + "\"" : column.values[i];
}

// Whether a value is one of those that a user has named.
bool is_named(const SplitColumn& column, std::size_t i, const std::vector<std::string>& named) {
  if (is_any_of(column.values[i], named, column.words)) return true;
  const std::string word = word_of(column, i);
  return !word.empty() && is_any_of(word, named, true);
}

void require_there(const SplitColumn& column, const std::vector<std::string>& named, const std::string& key) {
  for (const std::string& one : named)
    if (!holds(column, one))
      throw DataError("'" + column.name + "' holds " + values_text(column) + ", and not " + one + ", which " + key +
                      " names; name one of them");
}

// Which of the values that do not validate train, where nobody has said so: 0, or words for training, of which "Train"
// and "train" are two; none where it cannot be told.
std::vector<std::size_t> training_values(const SplitColumn& column, const std::vector<std::size_t>& others) {
  if (others.size() == 1) return others;
  std::vector<std::size_t> named;
  std::ranges::copy_if(others, std::back_inserter(named),
                       [&](std::size_t i) { return is_training_word(word_of(column, i)); });
  if (column.words || !named.empty()) return named;
  // 0, 1, 2 are roles; of more numbers each may be a fold, of which all but one train.
  if (others.size() > 2) return {};
  std::vector<std::size_t> found;
  std::ranges::copy_if(others, std::back_inserter(found),
                       [&](std::size_t i) { return number_of(column.values[i]).value_or(1) == 0; });
  return found;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  const std::string small = in_small_letters(word);
  return std::ranges::any_of(words, [&](const char* one) { return small == one; });
}

}  // namespace

bool are_roles(const std::string& name, const std::vector<std::string>& values) {
  return values.size() == 3 && in_small_letters(name).find("fold") == std::string::npos;
}

bool is_training_word(const std::string& word) { return is_one_of(word, {"train", "training", "trn", "tr"}); }

bool is_validation_word(const std::string& word) {
  return is_one_of(word, {"val", "valid", "validation", "validate", "dev"});
}

bool tests(const std::vector<std::string>& test_roles, const SplitColumn& column, const std::string& value) {
  const auto i = static_cast<std::size_t>(std::ranges::find(column.values, value) - column.values.begin());
  if (test_roles.empty()) return is_one_of(word_of(column, i), {"test", "testing", "tst"});
  return is_named(column, i, test_roles);
}

bool holds(const SplitColumn& column, const std::string& named) {
  return is_any_of(named, column.values, column.words) ||
         (!named.empty() && std::ranges::find(column.names, named) != column.names.end());
}

bool is_any_of(const std::string& value, const std::vector<std::string>& named, bool words) {
  return std::ranges::any_of(named, [&](const std::string& one) {
    if (words) return one == value;
    const std::optional<ExactNumber> a = number_of(one), b = number_of(value);
    return a && b && *a == *b;
  });
}

namespace {

// What each value is called, where one is.
std::vector<std::string> names_of_values(const SplitColumn& column, const LabelNames& names) {
  if (names.of.empty()) return {};
  std::vector<std::string> all;
  for (const std::string& value : column.values) {
    const ExactNumber number = number_of(value).value_or(0);
    const auto found = number == std::floor(number) && std::abs(number) < kMostClassValue
                           ? names.of.find(static_cast<Index>(number))
                           : names.of.end();
    all.push_back(found == names.of.end() ? "" : found->second.text);
  }
  return all;
}

// Adds what a file calls the column's numbers.
void add_names(const RowSource& rows, LabelNames& names) {
  for (const auto& [where, here] : rows.require_alike(false).names) {
    const LabelNames more = LabelNames::from({.values = here.values, .enumeration = here.enumeration}, where,
                                             {.kind = LabelKind::classes}, 1);
    if (const std::string text = contradiction(names, more); !text.empty())
      throw DataError(text + "; give each word of data.split.column one number in all files");
    names.add(more);
  }
}

}  // namespace

SplitColumn read_split_column(const RowSources& sources, const std::vector<Index>& rows_of_file, std::size_t most) {
  SplitColumn column;
  column.name = sources.names().front();
  Distinct<ExactNumber> numbers{most};
  Distinct<std::string> words{most};
  LabelNames names;
  for (std::size_t i = 0; i < rows_of_file.size(); ++i) {
    const auto open = sources.at(i);
    const RowSource& rows = *open->front();
    const std::vector<Index>& shape = rows.shape();
    if (const std::string characters = characters_text(rows); !characters.empty()) throw DataError(characters);
    if (shape.front() != rows_of_file[i] || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1))
      throw DataError(rows.where() + " has shape " + shape_text(shape) +
                      ", and data.split.column wants one number for " + "each of " + std::to_string(rows_of_file[i]) +
                      " samples, or one word");
    if (i > 0 && rows.holds_words() != column.words)
      throw DataError(rows.where() + " holds " + (column.words ? "numbers" : "words") + ", and in " + sources.path(0) +
                      (column.words ? " words" : " numbers") + "; make them alike");
    column.words = rows.holds_words();
    if (column.words) {
      add_words(rows, words);
      continue;
    }
    add_numbers(rows, numbers);
    add_names(rows, names);
  }
  if (column.words)
    words.finish(column, [](const std::string& word) { return word; });
  else
    numbers.finish(column, number_text);
  column.names = names_of_values(column, names);
  return column;
}

namespace {

// The values that are named to test.
void mark_tests(const RowChoice& choice, const SplitColumn& column, std::vector<std::optional<Subset>>& roles) {
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (!is_named(column, i, choice.test_roles)) continue;
    if (roles[i])
      throw DataError("'" + column.name + "' holds " + values_text(column) + ", and " + column.values[i] +
                      " is named in data.split.test and beside it; remove one");
    roles[i] = Subset::test;
  }
}

// Whether names of numbers say something else than that 0 trains and the other one validates.
bool named_otherwise(const SplitColumn& column) {
  for (std::size_t i = 0; i < column.names.size(); ++i) {
    const bool zero = number_of(column.values[i]).value_or(0) == 0;
    if (zero ? is_validation_word(column.names[i]) || tests({}, column, column.values[i])
             : is_training_word(column.names[i]) || tests({}, column, column.values[i]))
      return true;
  }
  return false;
}

// The column does not tell by itself which rows validate.
[[noreturn]] void refuse_unnamed(const SplitColumn& column) {
  std::size_t one = column.values.size() - (are_roles(column.name, column.values) ? 2 : 1);
  for (std::size_t i = column.values.size(); i-- > 0;)
    if (is_validation_word(word_of(column, i))) one = i;
  throw DataError("'" + column.name + "' holds " +
                  (column.words               ? "the words "
                   : column.values.size() > 2 ? "more than two different numbers, "
                                              : "") +
                  values_text(column) + ": name those whose rows validate, such as data.split.validation = [" +
                  key_text(column, one) + "], and in data.split.train those whose rows train, if that is not plain");
}

}  // namespace

std::vector<std::optional<Subset>> roles_of(const RowChoice& choice, const SplitColumn& column) {
  const auto& values = column.values;
  const std::string what = "'" + column.name + "' holds ";
  if (choice.validation_roles.empty() && (column.words || values.size() > 2 || named_otherwise(column)))
    refuse_unnamed(column);
  require_there(column, choice.validation_roles, "data.split.validation");
  require_there(column, choice.train_roles, "data.split.train");
  require_there(column, choice.test_roles, "data.split.test");
  std::vector<std::optional<Subset>> roles(values.size());
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool validates = choice.validation_roles.empty() ? number_of(values[i]).value_or(0) != 0
                                                           : is_named(column, i, choice.validation_roles);
    if (validates) roles[i] = Subset::validation;
    if (!validates) others.push_back(i);
    if (!is_named(column, i, choice.train_roles)) continue;
    if (validates)
      throw DataError(what + values_text(column) + ", and " + values[i] +
                      " is named in both data.split.train and data.split.validation; remove one");
    roles[i] = Subset::train;
  }
  const bool given = !choice.train_roles.empty();
  std::erase_if(others, [&](std::size_t i) { return is_named(column, i, choice.test_roles); });
  const std::vector<std::size_t> trains =
      given || others.empty() ? std::vector<std::size_t>{} : training_values(column, others);
  mark_tests(choice, column, roles);
  if (given || others.empty()) return roles;
  if (trains.empty()) {
    std::string rest;
    for (const std::size_t i : others) rest += (rest.empty() ? "" : ", ") + key_text(column, i);
    throw DataError(what + values_text(column) +
                    ", and it is not plain which of them train; name these, such as data.split.train = [" + rest + "]");
  }
  for (const std::size_t i : trains) roles[i] = Subset::train;
  return roles;
}

std::string unused_text(const RowChoice& choice, const SplitColumn& column) {
  const auto roles = roles_of(choice, column);
  const auto neither = [&](std::size_t i) { return !roles[i]; };
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (neither(i)) unused.push_back(key_text(column, i));
  if (unused.empty()) return "";
  const auto rows = std::ranges::count_if(column.of_row,
                                          [&](std::int32_t value) { return neither(static_cast<std::size_t>(value)); });
  if (choice.rule == SplitRule::arrays)
    return rows == 0 ? ""
                     : std::to_string(rows) + " rows are in none of '" + column.name + "', and not used" +
                           (roles[static_cast<std::size_t>(column.of_row.front())]
                                ? ""
                                : ": row 0 is one of them (lists count rows from 0 on)");
  return std::to_string(rows) + " rows of '" + column.name + "' = " + list_text(unused) + " neither train nor validate";
}

namespace {

constexpr std::int32_t kNone = 0;  // the value of rows that no array names

std::vector<double> numbers_of(const RowSource& array) {
  const std::vector<Index>& shape = array.shape();
  const bool list = shape.size() == 1 || (shape.size() == 2 && (shape[0] == 1 || shape[1] == 1));
  if (array.holds_words() || array.type() == ElementType::other || !list)
    throw DataError(
        fmt::format("{} has shape {}{}, and data.split.by = \"arrays\" wants a list of row numbers, or a mark of 0 or "
                    "1 for each row",
                    array.where(), shape_text(shape), array.holds_words() ? " of texts" : ""));
  std::vector<double> numbers(static_cast<std::size_t>(shape.front() * array.row_elements()));
  std::vector<std::byte> raw(static_cast<std::size_t>(shape.front() * array.row_bytes()));
  array.read(0, shape.front(), raw.data());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = number_at(array.type(), raw.data(), static_cast<Index>(i));
  return numbers;
}

// A list of more than two row numbers names none twice, so it never holds 0 and 1 alone.
bool are_marks(const std::vector<double>& numbers, Index rows) {
  return rows > 2 && std::ssize(numbers) == rows &&
         std::ranges::all_of(numbers, [](double number) { return number == 0 || number == 1; });
}

/// What the arrays of one file say of its rows.
class NamedRows {
 public:
  NamedRows(Index rows, const std::vector<std::string>& names)
      : of_row_(static_cast<std::size_t>(rows), kNone), names_(&names) {}

  void add(const RowSource& array, std::int32_t value) {
    const std::vector<double> numbers = numbers_of(array);
    if (are_marks(numbers, std::ssize(of_row_))) {
      for (std::size_t row = 0; row < numbers.size(); ++row)
        if (numbers[row] == 1) name(array, row, value);
      return;
    }
    for (const double number : numbers) {
      if (!(number >= 0 && number < static_cast<double>(of_row_.size())) || number != std::floor(number))
        refuse(array, number, std::ranges::min(numbers));
      name(array, static_cast<std::size_t>(number), value);
    }
  }
  const std::vector<std::int32_t>& of_row() const { return of_row_; }

 private:
  void name(const RowSource& array, std::size_t row, std::int32_t value) {
    std::int32_t& here = of_row_[row];
    if (here != kNone)
      throw DataError(fmt::format("{} names row {} {}; name each row once", array.where(), row,
                                  here == value ? "twice"
                                                : fmt::format("(from 0), which '{}' names, too",
                                                              (*names_)[static_cast<std::size_t>(here) - 1])));
    here = value;
  }
  [[noreturn]] void refuse(const RowSource& array, double number, double least) const {
    const auto rows = static_cast<Index>(of_row_.size());
    throw DataError(fmt::format(
        "{} holds {:g}, and the file's samples are rows 0 to {}{}", array.where(), number, rows - 1,
        number == static_cast<double>(rows) && least >= 1 ? "; if it counts rows from 1 on, store numbers from 0 on"
                                                          : "; store the numbers of rows, from 0 on"));
  }

  std::vector<std::int32_t> of_row_;
  const std::vector<std::string>* names_;
};

}  // namespace

SplitColumn read_split_arrays(const RowSources& arrays, const std::vector<Index>& rows_of_file) {
  const std::vector<std::string>& names = arrays.names();
  SplitColumn column;
  column.name = fmt::format("{}", fmt::join(names, "', '"));
  column.words = true;
  column.values = {""};
  column.values.insert(column.values.end(), names.begin(), names.end());
  for (std::size_t file = 0; file < rows_of_file.size(); ++file) {
    const auto open = arrays.at(file);
    NamedRows rows(rows_of_file[file], names);
    for (std::size_t i = 0; i < names.size(); ++i) rows.add(*(*open)[i], static_cast<std::int32_t>(i + 1));
    column.of_row.insert(column.of_row.end(), rows.of_row().begin(), rows.of_row().end());
  }
  return column;
}

}  // namespace mrmf
