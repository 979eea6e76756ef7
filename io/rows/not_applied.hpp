// What attributes of a data set's files say that nothing applies, as runs warn of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/rows/row_source.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// What attributes of one name say in this rank's files that nothing applies.
struct NotAppliedSeen {
  std::string text;  ///< text of the first file that has some
  std::size_t file = 0;
  std::int64_t files = 0;  ///< that have some

  void add(std::size_t here, const std::string& one) {
    if (one.empty()) return;
    if (files++ == 0) text = one, file = here;
  }
};

/// A line for each name of which attributes say such a thing, in the words of the first file. Collective.
std::vector<std::string> not_applied_lines(const RowSources& sources, const std::vector<NotAppliedSeen>& seen,
                                           std::size_t files, Comm& comm);

}  // namespace mrmf
