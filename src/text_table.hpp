// Plain-text tables: cells in columns, each as wide as its widest cell.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// A list of cells per column, all of one length; the first column holds the rows' names.
struct TextTable {
  std::vector<std::vector<std::string>> columns;
  std::size_t heading = 0;  ///< leading cells of a column that name it; a line is drawn below them

  /// Rows without any text are left out.
  std::string text() const;
};

}  // namespace mrmf
