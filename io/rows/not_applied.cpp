#include "io/rows/not_applied.hpp"

#include <limits>
#include <span>

namespace mrmf {

std::vector<std::string> not_applied_lines(const RowSources& sources, const std::vector<NotAppliedSeen>& seen,
                                           std::size_t files, Comm& comm) {
  constexpr double none = std::numeric_limits<double>::max();
  std::vector<std::string> lines;
  for (std::size_t name = 0; name < seen.size(); ++name) {
    const double here = seen[name].files == 0 ? none : static_cast<double>(seen[name].file), first = comm.min(here);
    if (first == none) continue;
    std::string text = seen[name].text;
    comm.broadcast(text, static_cast<int>(comm.min(here == first ? comm.rank() : comm.size())));
    std::vector<std::int64_t> count{seen[name].files};
    comm.sum(std::span(count));
    const bool all = static_cast<std::size_t>(count.front()) == files;
    lines.push_back("'" + sources.names()[name] + "'" +
                    (all ? ""
                         : " in " + std::to_string(count.front()) + " of " + std::to_string(files) +
                               " files, such as " + sources.path(static_cast<std::size_t>(first))) +
                    ": " + text);
  }
  return lines;
}

}  // namespace mrmf
