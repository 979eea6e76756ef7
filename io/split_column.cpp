#include "io/split_column.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "io/edit_distance.hpp"
#include "io/element.hpp"
#include "io/limits.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostListed = 12;  // values in a message

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value + 0.0).ptr};  // the sum is never -0
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string list_text(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostListed); ++i) text += (i > 0 ? ", " : "") + values[i];
  return values.size() > kMostListed ? text + ", ..." : text;
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

void add_numbers(const RowSource& column, Distinct<double>& distinct) {
  const Index rows = column.shape().front(), step = Index{1} << 20;
  std::vector<std::byte> raw;
  for (Index first = 0; first < rows; first += step) {
    const Index count = std::min(step, rows - first);
    raw.resize(static_cast<std::size_t>(count * column.row_bytes()));
    column.read(first, count, raw.data());
    for (Index row = 0; row < count; ++row) {
      const double value = number_at(column.type(), raw.data(), row);
      if (!std::isfinite(value))
        throw DataError(column.row_text(first + row) + " holds " +
                        (std::isnan(value) && column.packing().declared
                             ? "no number, as its attributes say (" + column.packing().text() + ")"
                             : not_finite_reason(value)) +
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
std::string key_text(const std::string& value, bool words) { return words ? "\"" + value + "\"" : value; }

void require_there(const SplitColumn& column, const std::vector<std::string>& named, const std::string& key) {
  for (const std::string& one : named)
    if (!is_any_of(one, column.values, column.words))
      throw DataError("'" + column.name + "' holds " + list_text(column.values) + ", and not " + one + ", which " +
                      key + " names; name one of them");
}

// Which of the values that do not validate train, where nobody has said so: 0, or words for training, of which "Train"
// and "train" are two; none where it cannot be told.
std::vector<std::size_t> training_values(const SplitColumn& column, const std::vector<std::size_t>& others) {
  if (others.size() == 1) return others;
  // 0, 1, 2 are roles; of more numbers each may be a fold, of which all but one train.
  if (!column.words && others.size() > 2) return {};
  std::vector<std::size_t> found;
  std::ranges::copy_if(others, std::back_inserter(found), [&](std::size_t i) {
    return column.words ? is_training_word(column.values[i]) : number_of(column.values[i]).value_or(1) == 0;
  });
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
  if (test_roles.empty()) return column.words && is_one_of(value, {"test", "testing", "tst"});
  return is_any_of(value, test_roles, column.words);
}

bool is_any_of(const std::string& value, const std::vector<std::string>& named, bool words) {
  return std::ranges::any_of(named, [&](const std::string& one) {
    if (words) return one == value;
    const std::optional<double> a = number_of(one), b = number_of(value);
    return a && b && *a == *b;
  });
}

SplitColumn read_split_column(const RowSources& sources, const std::vector<Index>& rows_of_file, std::size_t most) {
  SplitColumn column;
  column.name = sources.names().front();
  Distinct<double> numbers{most};
  Distinct<std::string> words{most};
  for (std::size_t i = 0; i < rows_of_file.size(); ++i) {
    const auto open = sources.at(i);
    const RowSource& rows = *open->front();
    const std::vector<Index>& shape = rows.shape();
    if (shape.front() != rows_of_file[i] || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1))
      throw DataError(rows.where() + " has shape " + shape_text(shape) +
                      ", and data.split.column wants one number for " + "each of " + std::to_string(rows_of_file[i]) +
                      " samples, or one word");
    if (i > 0 && rows.holds_words() != column.words)
      throw DataError(rows.where() + " holds " + (column.words ? "numbers" : "words") + ", and in " + sources.path(0) +
                      (column.words ? " words" : " numbers") + "; make them alike");
    column.words = rows.holds_words();
    if (!column.words)
      add_numbers(rows, numbers);
    else
      add_words(rows, words);
  }
  if (column.words)
    words.finish(column, [](const std::string& word) { return word; });
  else
    numbers.finish(column, number_text);
  return column;
}

namespace {

// The values that are named to test.
void mark_tests(const RowChoice& choice, const SplitColumn& column, std::vector<RowRole>& roles) {
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const std::string& value = column.values[i];
    if (!is_any_of(value, choice.test_roles, column.words)) continue;
    if (roles[i] != RowRole::neither)
      throw DataError("'" + column.name + "' holds " + list_text(column.values) + ", and " + value +
                      " is named in data.split.test and beside it; remove one");
    roles[i] = RowRole::test;
  }
}

}  // namespace

std::vector<RowRole> roles_of(const RowChoice& choice, const SplitColumn& column) {
  const auto& values = column.values;
  const std::string what = "'" + column.name + "' holds ";
  const auto example = [&](const std::string& value) { return "[" + key_text(value, column.words) + "]"; };
  if (choice.validation_roles.empty() && (column.words || values.size() > 2)) {
    const auto usual = std::ranges::find_if(values, is_validation_word);
    throw DataError(what + (column.words ? "the words " : "more than two different numbers, ") + list_text(values) +
                    ": name those whose rows validate, such as data.split.validation = " +
                    example(usual != values.end() ? *usual : values.end()[are_roles(column.name, values) ? -2 : -1]) +
                    ", and in data.split.train those whose rows train, if that is not plain");
  }
  require_there(column, choice.validation_roles, "data.split.validation");
  require_there(column, choice.train_roles, "data.split.train");
  require_there(column, choice.test_roles, "data.split.test");
  std::vector<RowRole> roles(values.size(), RowRole::neither);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool validates = choice.validation_roles.empty()
                               ? number_of(values[i]).value_or(0) != 0
                               : is_any_of(values[i], choice.validation_roles, column.words);
    if (validates) roles[i] = RowRole::validation;
    if (!validates) others.push_back(i);
    if (!is_any_of(values[i], choice.train_roles, column.words)) continue;
    if (validates)
      throw DataError(what + list_text(values) + ", and " + values[i] +
                      " is named in both data.split.train and data.split.validation; remove one");
    roles[i] = RowRole::train;
  }
  const bool given = !choice.train_roles.empty();
  std::erase_if(others, [&](std::size_t i) { return is_any_of(values[i], choice.test_roles, column.words); });
  const std::vector<std::size_t> trains =
      given || others.empty() ? std::vector<std::size_t>{} : training_values(column, others);
  mark_tests(choice, column, roles);
  if (given || others.empty()) return roles;
  if (trains.empty()) {
    std::string rest;
    for (const std::size_t i : others) rest += (rest.empty() ? "" : ", ") + key_text(values[i], column.words);
    throw DataError(what + list_text(values) +
                    ", and it is not plain which of them train; name these, such as data.split.train = [" + rest + "]");
  }
  for (const std::size_t i : trains) roles[i] = RowRole::train;
  return roles;
}

std::string unused_text(const RowChoice& choice, const SplitColumn& column) {
  const std::vector<RowRole> roles = roles_of(choice, column);
  const auto neither = [&](std::size_t i) { return roles[i] == RowRole::neither; };
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (neither(i)) unused.push_back(key_text(column.values[i], column.words));
  if (unused.empty()) return "";
  const auto rows = std::ranges::count_if(column.of_row,
                                          [&](std::int32_t value) { return neither(static_cast<std::size_t>(value)); });
  return std::to_string(rows) + " rows of '" + column.name + "' = " + list_text(unused) + " neither train nor validate";
}

}  // namespace mrmf
