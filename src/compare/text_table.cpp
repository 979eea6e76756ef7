#include "src/compare/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrmf {
namespace {

constexpr std::size_t kGap = 3;  // between columns

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& columns) {
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = 0;
    for (const std::string& cell : column) width = std::max(width, cell.size());
    widths.push_back(width);
  }
  return widths;
}

// The columns [first, last) of the table, beside the names.
std::string block(const TextTable& table, const std::vector<std::size_t>& widths, std::size_t first, std::size_t last) {
  std::size_t line_width = widths[0];
  for (std::size_t c = first; c < last; ++c) line_width += kGap + widths[c];
  std::string out;
  for (std::size_t row = 0; row < table.columns.front().size(); ++row) {
    if (row == table.heading) out += std::string(line_width, '-') + "\n";
    std::string line = fmt::format("{:<{}}", table.columns[0][row], widths[0]);
    bool any = false;
    for (std::size_t c = first; c < last; ++c) {
      any = any || !table.columns[c][row].empty();
      line += fmt::format("{:>{}}", table.columns[c][row], kGap + widths[c]);
    }
    if (!any) continue;
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string TextTable::text(std::size_t width) const {
  const std::vector<std::size_t> widths = widths_of(columns);
  std::string out;
  for (std::size_t first = 1; first < columns.size();) {
    std::size_t last = first, used = widths[0];
    while (last < columns.size()) {
      std::size_t end = last + 1, more = kGap + widths[last];
      for (; beside.contains(end); ++end) more += kGap + widths[end];
      if (last > first && width > 0 && used + more > width) break;
      used += more;
      last = end;
    }
    out += (out.empty() ? "" : "\n") + block(*this, widths, first, last);
    first = last;
  }
  return out;
}

}  // namespace mrmf
