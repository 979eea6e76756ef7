// Where the rows of a data set come from: the files that it names, found as the library finds them, and whether all
// rows were ever written. HDF5 gives its fill value for what is not there, without a word. Private to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// Whether this is a regular file; false when there is nothing. DataError for a folder, FIFO, socket or device: opening
/// it may wait for ever.
bool is_regular(const std::string& path);

/// Where one source of a virtual data set is.
struct SourceName {
  std::string file, dataset;
  bool numbered() const;  ///< "%b" stands for 0, 1, ...
  SourceName with_number(hsize_t number) const;
};
SourceName source_name(const Properties& creation, std::size_t i);

struct OpenSource {
  File file;  ///< invalid: none of the places where the library looks has it
  std::string path;
};
/// Opens a file that a data set of the file at `path` names as its source; "." is that file itself.
OpenSource open_source(const std::string& path, const std::string& name);

/// The places where the library looks for a file that the one at `path` names, in its order. `variable` is the
/// environment's list of folders for it: HDF5_VDS_PREFIX, or HDF5_EXT_PREFIX for links.
std::vector<std::string> places_of(const std::string& path, const std::string& name, const char* variable);

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
