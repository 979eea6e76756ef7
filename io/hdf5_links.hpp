// Where names in a file lead: through soft links, and through links into other files. Private to io/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "io/hdf5_names.hpp"
#include "io/input_file.hpp"

namespace mrmf::h5 {

/// Whether this is a regular file; false when nothing is there. DataError for a folder, FIFO, socket or device: opening
/// one may wait forever.
bool is_regular(const std::string& path);

/// Where the library looks for a file that the one at `path` names, in its order. `variable` is the environment
/// variable with a list of folders to search: HDF5_VDS_PREFIX, or HDF5_EXT_PREFIX for links.
std::vector<std::string> places_of(const std::string& path, const std::string& name, const char* variable);

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

/// Of an open object.
ObjectIdentity identity_of(hid_t object);

/// The file in which an object lies, to be read without the library, also after the library has closed it: the same
/// open file, not another that has its name by now. Nothing where that cannot be had. For files that were opened with
/// file_access().
std::unique_ptr<InputFile> plain_file_of(hid_t object);

/// Adds the other files that a name leads through, and those from which its data set, if it is one, takes values.
void add_inputs(hid_t file, const std::string& path, const std::string& name, std::vector<std::string>& files);

}  // namespace mrmf::h5
