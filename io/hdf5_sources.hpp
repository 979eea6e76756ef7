// Sources of a data set's rows: finds the files that it names as the library would, and tells whether all rows were
// ever written. For missing rows HDF5 silently returns its fill value. Private to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

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

/// Raw bytes of a data set in a file of their own beside the HDF5 file.
struct ExternalBytes {
  std::string file;  ///< where the library looks for it
  off_t offset = 0;
  hsize_t count = 0;  ///< or H5F_UNLIMITED
};
/// Those of a data set of the file at `path`, in their order; most have none. DataError when they cannot be listed.
std::vector<ExternalBytes> external_bytes(const std::string& path, const Properties& creation);

/// The first rows that were never written.
struct Gap {
  Index row = 0;
  std::string reason;  ///< "were never written (3 of 12 chunks are not there)", "come from a.h5, which is not there"
};

/// Follows the sources of a virtual data set. Call it before any other use: the library follows circular sources until
/// the stack overflows, and waits forever for a FIFO. DataError for both, and for more files than a process may open.
/// `what` is "<path>: data set '<name>'".
void require_sound_sources(const Dataset& dataset, const std::string& what);

/// The gap with the lowest row, from headers and indices alone; none when everything was written.
std::optional<Gap> first_gap(const Dataset& dataset, const std::string& what);

/// The file that holds the data set, and all files that its values come from.
std::vector<std::string> files_of(const Dataset& dataset, const std::string& what);

/// DataError that names the gap and says how to use the fill value instead.
void require_written(const Dataset& dataset, const std::string& what);

}  // namespace mrmf::h5
