#include "io/rows/split_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/files/limits.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
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

// Of more than two rows, a list of row numbers names none twice, so it is never of 0 and 1 alone.
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
