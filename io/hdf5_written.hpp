// Where the rows of a data set come from, and whether all of them were ever written: HDF5 gives its fill value for what
// is not there, without a word. Private to io/.
#pragma once

#include <optional>
#include <string>

#include "io/hdf5_library.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// The first rows that nobody wrote.
struct Gap {
  Index row = 0;
  std::string reason;  ///< "were never written (3 of 12 chunks are not there)", "come from a.h5, which is not there"
};

/// Follows the sources of a virtual data set. Has to come before anything else is asked of it: the library follows
/// sources in a circle until the stack ends, and waits for ever for one that is a FIFO. DataError for both, and for
/// more files than a process may have open. `what` is "<path>: data set '<name>'"; `path` is the file it is in.
void require_sound_sources(const std::string& path, const Dataset& dataset, const std::string& what);

/// The gap with the lowest row, found from headers and indices alone; none when all of it was written.
std::optional<Gap> first_gap(const std::string& path, const Dataset& dataset, const std::string& what);

/// DataError naming the gap, and how to take the fill value instead.
void require_written(const std::string& path, const Dataset& dataset, const std::string& what);

}  // namespace mrmf::h5
