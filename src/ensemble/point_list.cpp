#include "src/ensemble/point_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/names.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr Index kMostListBytes = Index{4} << 30;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kUtf16Mark = "\xFF\xFE";

/// Reads CSV record by record.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
    if (text_.starts_with(kUtf16Mark)) throw DataError(path_ + ": is text in UTF-16; save it in UTF-8");
    const std::string_view header = text_.substr(0, text_.find_first_of("\r\n"));
    for (const char candidate : {',', ';', '\t'})
      if (header.find(candidate) != std::string_view::npos) {
        separator_ = candidate;
        break;
      }
  }

  /// The next record that is not blank; false at the end.
  bool next(std::vector<std::string>& cells) {
    while (at_ < text_.size()) {
      read_record(cells);
      if (cells.size() > 1 || !cells.front().empty()) return true;
    }
    return false;
  }
  /// Of the last record.
  std::string where() const { return fmt::format("{}:{}", path_, begun_); }

 private:
  void read_record(std::vector<std::string>& cells) {
    begun_ = line_;
    cells.clear();
    bool more = true;
    while (more) {
      skip_spaces();
      cells.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted_cell() : plain_cell());
      more = at_ < text_.size() && text_[at_] == separator_;
      if (more) ++at_;
    }
    end_line();
  }

  bool is_space(char c) const { return (c == ' ' || c == '\t') && c != separator_; }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  std::string plain_cell() {
    const std::array ends{separator_, '\r', '\n'};
    const std::size_t end = std::min(text_.find_first_of({ends.data(), ends.size()}, at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    while (!cell.empty() && is_space(cell.back())) cell.pop_back();
    return cell;
  }

  std::string quoted_cell() {
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[++at_];
      } else {
        ++at_;
        skip_spaces();
        if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\r' && text_[at_] != '\n')
          throw DataError(where() + ": something follows a closing quote; quotes within quotes are written twice");
        const auto inner = cell.find_first_not_of(" \t");
        cell.erase(0, std::min(inner, cell.size()));
        cell.erase(cell.find_last_not_of(" \t") + 1);
        return cell;
      }
    }
    throw DataError(where() + ": a quote is not closed");
  }

  // "\n", "\r\n" or "\r".
  void end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& path_;
  char separator_ = ',';
  std::size_t at_ = 0, line_ = 1, begun_ = 1;
};

void add(ListColumn& column, std::string value, const std::string& where) {
  if (value.empty()) throw DataError(fmt::format("{}: '{}' has no value", where, column.key));
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc{} && end == value.data() + value.size() && !std::isfinite(number))
    throw DataError(fmt::format("{}: '{}' is {}; give a finite number", where, column.key, value));
  const bool first = column.not_a_number == column.values.size();
  if (first && number_in_text(value))
    ++column.not_a_number;
  else if (first)
    column.where = where;
  column.values.push_back(std::move(value));
}

std::vector<ListColumn> read_csv(const std::string& path) {
  const std::string text = read_file(path, kMostListBytes);
  CsvReader reader(text, path);
  std::vector<std::string> cells;
  if (!reader.next(cells)) throw DataError(path + ": is empty; its first line names the keys");
  std::vector<ListColumn> columns;
  for (const std::string& key : cells) {
    if (key.empty()) throw DataError(reader.where() + ": a column has no name; the first line names the keys");
    columns.push_back({key, {}, 0, path});
  }
  while (reader.next(cells)) {
    if (cells.size() != columns.size())
      throw DataError(
          fmt::format("{}: {} values, and the header names {} keys", reader.where(), cells.size(), columns.size()));
    for (std::size_t k = 0; k < cells.size(); ++k) add(columns[k], std::move(cells[k]), reader.where());
  }
  return columns;
}

// A data set per key, or one with a column per key.
std::vector<ListColumn> read_hdf5(const DesignSpec& design) {
  std::vector<ListColumn> columns;
  const auto add_number = [&](std::size_t k, double value, std::size_t row) {
    add(columns[k], fmt::format("{}", value), fmt::format("{}: row {}", design.file, row));
  };
  if (design.dataset.empty()) {
    for (const std::string& key : design.columns.empty() ? names_of(design.file).datasets : design.columns) {
      const DatasetNumbers numbers = read_stored_numbers(design.file, key);
      columns.push_back({key, {}, 0, design.file});
      for (std::size_t i = 0; i < numbers.values.size(); ++i) add_number(columns.size() - 1, numbers.values[i], i);
      if (columns.back().values.size() != columns.front().values.size())
        throw DataError(fmt::format("{}: '{}' has {} values and '{}' has {}", design.file, key,
                                    columns.back().values.size(), columns.front().key, columns.front().values.size()));
    }
    return columns;
  }
  const DatasetNumbers numbers = read_stored_numbers(design.file, design.dataset);
  if (numbers.shape.size() != 2 || numbers.shape[1] != std::ssize(design.columns))
    throw ConfigError(fmt::format("design.columns names {} keys; '{}' in {} needs one for each of its columns",
                                  design.columns.size(), design.dataset, design.file));
  for (const std::string& key : design.columns) columns.push_back({key, {}, 0, design.file});
  for (std::size_t i = 0; i < numbers.values.size(); ++i)
    add_number(i % columns.size(), numbers.values[i], i / columns.size());
  return columns;
}

}  // namespace

std::optional<double> number_in_text(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) return {};
  return number;
}

std::vector<ListColumn> read_list_columns(const DesignSpec& design) {
  std::vector<ListColumn> columns = is_hdf5(design.file) ? read_hdf5(design) : read_csv(design.file);
  if (columns.empty() || columns.front().values.empty()) throw DataError(design.file + ": has no points");
  for (std::size_t k = 0; k < columns.size(); ++k)
    for (std::size_t other = 0; other < k; ++other)
      if (columns[k].key == columns[other].key)
        throw ConfigError(fmt::format("{}: the key '{}' is there twice", design.file, columns[k].key));
  return columns;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",;\t\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

}  // namespace mrmf
