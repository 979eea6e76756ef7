// Where names and data sets in a file lead: through links, also into other files, and to the sources of virtual and
// external data sets. Private to io/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// Whether this is a regular file; false when nothing is there, or nothing that can be looked at: `why` says so then.
/// DataError for a folder, FIFO, socket or device: opening one may wait forever. `from` is what leads there:
/// "a.h5: data set 'x'".
bool is_regular(const std::string& path, const std::string& from, std::string& why);

/// Where the library looks for a file that the one at `path` names, in its order. `variable` is the environment
/// variable with a list of folders to search: HDF5_VDS_PREFIX, or HDF5_EXT_PREFIX for links.
std::vector<std::string> candidate_paths(const std::string& path, const std::string& name, const char* variable);

/// A file that another one names.
struct OpenSource {
  File file;  ///< invalid: it is at none of its candidate paths
  std::string path;
  std::string why = "which is not there";  ///< where it is invalid
  bool there = false;                      ///< something is there, then, that is no such file
};
/// Opens the first of the candidates that is an HDF5 file; `from` as for is_regular().
OpenSource open_first(const std::vector<std::string>& candidates, const Properties& access, const std::string& from);

/// What a name leads to, link by link.
struct Target {
  bool there = false;
  File other;                      ///< open where a link led into another file
  hid_t file = H5I_INVALID_HID;    ///< in which it lies: `other`, or the one that was asked; not owned
  std::string name;                ///< there, with hard links alone on the way
  std::vector<std::string> files;  ///< other files on the way, that in which it lies included
  /// Why nothing is there, where a link is at fault: "leads to 'x' of b.h5, which is not there; ...". Empty where the
  /// file has no such name.
  std::string broken;
};

/// Follows a name as the library would, and opens files for links between files. The library itself would wait forever
/// for a FIFO; DataError for all that is no regular file.
Target follow(hid_t file, const std::string& name);

/// Whether it is there and is a data set.
bool is_dataset(const Target& target);

/// The path by which the file was opened in which this object lies. Links of data sets to other files, and all that
/// these name, are relative to it, whatever file the object was reached from.
std::string file_of(hid_t object);

/// The identity of an open object.
ObjectIdentity identity_of(hid_t object);

/// The file in which an object lies, to be read without the library, also after the library has closed it: the same
/// open file, not another that has its name by now. Nothing where that cannot be had. For files that were opened with
/// file_access().
std::unique_ptr<InputFile> plain_file_of(hid_t object);

/// Adds the other files that a name leads through, and those from which its data set, if it is one, takes values.
void add_inputs(hid_t file, const std::string& path, const std::string& name, std::vector<std::string>& files);

// Sources of a data set's rows: finds the files that it names as the library would, and tells whether all rows were
// ever written. For missing rows HDF5 silently returns its fill value.

/// The location of one source of a virtual data set.
struct SourceName {
  std::string file, dataset;
  bool numbered() const;  ///< "%b" stands for 0, 1, ...
  SourceName with_number(hsize_t number) const;
};
SourceName source_name(const Properties& creation, std::size_t i);

/// Opens a file that a data set of the file at `path` names as its source; "." is that file itself. `from` as for
/// is_regular().
OpenSource open_source(const std::string& path, const std::string& name, const std::string& from);

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
  bool wrong = false;  ///< something is there that does not belong there: it is not for the fill value
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
