// Sources of a data set's rows: finds the files that it names as the library would, and tells whether all rows were
// ever written. For missing rows HDF5 silently returns its fill value. Private to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// Whether this is a regular file; false when nothing is there. DataError for a folder, FIFO, socket or device: opening
/// one may wait forever.
bool is_regular(const std::string& path);

/// The location of one source of a virtual data set.
struct SourceName {
  std::string file, dataset;
  bool numbered() const;  ///< "%b" stands for 0, 1, ...
  SourceName with_number(hsize_t number) const;
};
SourceName source_name(const Properties& creation, std::size_t i);

struct OpenSource {
  File file;  ///< invalid: in none of the places where the library looks
  std::string path;
};
/// Opens a file that a data set of the file at `path` names as its source; "." is that file itself.
OpenSource open_source(const std::string& path, const std::string& name);

/// Where the library looks for a file that the one at `path` names, in its order. `variable` is the environment
/// variable with a list of folders to search: HDF5_VDS_PREFIX, or HDF5_EXT_PREFIX for links.
std::vector<std::string> places_of(const std::string& path, const std::string& name, const char* variable);

/// The first rows that were never written.
struct Gap {
  Index row = 0;
  std::string reason;  ///< "were never written (3 of 12 chunks are not there)", "come from a.h5, which is not there"
};

/// Follows the sources of a virtual data set. Call it before any other use: the library follows circular sources until
/// the stack overflows, and waits forever for a FIFO. DataError for both, and for more files than a process may open.
/// `what` is "<path>: data set '<name>'"; `path` is the file it is in.
void require_sound_sources(const std::string& path, const Dataset& dataset, const std::string& what);

/// The gap with the lowest row, from headers and indices alone; none when everything was written.
std::optional<Gap> first_gap(const std::string& path, const Dataset& dataset, const std::string& what);

/// The file that holds the data set, which an external link may lead to, and all files that its values come from.
std::vector<std::string> files_of(const std::string& path, const Dataset& dataset, const std::string& what);

/// DataError that names the gap and says how to use the fill value instead.
void require_written(const std::string& path, const Dataset& dataset, const std::string& what);

}  // namespace mrmf::h5
