// Plain-text tables: cells in columns, each as wide as its widest cell.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace mrmf {

/// A list of cells per column, all of one length; the first column holds the rows' names.
struct TextTable {
  std::vector<std::vector<std::string>> columns;
  std::size_t heading = 0;         ///< leading cells of a column that name it; a line is drawn below them
  std::set<std::size_t> beside{};  ///< columns that stay beside the one before

  /// Columns for which a line of `width` characters has no room go below, beside the names once more; 0: all in one
  /// line. Rows without any cell but their name are left out.
  std::string text(std::size_t width = 0) const;
};

}  // namespace mrmf
