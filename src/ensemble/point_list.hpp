// Lists of points: the file of design.kind = "list".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ensemble/spec.hpp"

namespace mrmf {

/// A column of a list: the values of one key.
struct ListColumn {
  std::string key;
  std::vector<std::string> values;  ///< as they are written
  std::size_t not_a_number = 0;     ///< the first value that is none: its index; as many as there are if all are
  std::string where;                ///< of that value, or of the column
};

/// The columns of a CSV file, whose first line names the keys, or of an HDF5 file, with a data set for each key or one
/// with a column for each (design.dataset, design.columns). CSV as RFC 4180 has it; a byte order mark, spaces around
/// values, any ends of lines, and semicolons or tabs in place of commas are allowed. DataError, with the line, where
/// values are missing, not finite, or not as many as keys; ConfigError where a key is there twice.
std::vector<ListColumn> read_list_columns(const DesignSpec& design);

/// A cell of a CSV file, in quotes where it needs them.
std::string csv_cell(std::string_view text);

/// A finite number, or none. As people write them: "+1" is one, too.
std::optional<double> number_in_text(std::string_view text);

}  // namespace mrmf
