// The files that a data set or link names, found as the library finds them. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5_library.hpp"

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

}  // namespace mrmf::h5
