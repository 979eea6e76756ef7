#include "src/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrmf {
namespace {

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& columns) {
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = 0;
    for (const std::string& cell : column) width = std::max(width, cell.size());
    widths.push_back(width);
  }
  return widths;
}

}  // namespace

std::string TextTable::text() const {
  const std::vector<std::size_t> widths = widths_of(columns);
  std::size_t line_width = 3 * (widths.size() - 1);
  for (const std::size_t width : widths) line_width += width;
  std::string out;
  for (std::size_t row = 0; row < columns.front().size(); ++row) {
    if (row == heading) out += std::string(line_width, '-') + "\n";
    const auto blank = [row](const auto& column) { return column[row].empty(); };
    if (std::all_of(columns.begin(), columns.end(), blank)) continue;
    std::string line = fmt::format("{:<{}}", columns[0][row], widths[0]);
    for (std::size_t c = 1; c < columns.size(); ++c) line += fmt::format("   {:>{}}", columns[c][row], widths[c]);
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace mrmf
