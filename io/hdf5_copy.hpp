// Copies of data sets, attributes and names from one HDF5 file into another. Private to io/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "io/hdf5_names.hpp"

namespace mrmf::h5 {

/// What a copy has not got of its source.
struct LeftOut {
  std::map<std::string, std::vector<std::string>> references;  ///< attributes that hold them, and of which objects
  std::vector<std::string> others;                             ///< a line each
};
/// The same for people, a line each.
std::vector<std::string> texts_of(const LeftOut& left_out);

/// Source and target of a copy; the paths are for messages.
struct CopyLocations {
  hid_t from, to;
  std::string source, target;
  LeftOut& left_out;  ///< what is left out is added
};

/// Copies a data set of any type with its layout, filters, attributes and parent groups. Values that lie in other files
/// (of a virtual data set, or raw bytes beside the file) are copied too: from another folder their names would lead
/// nowhere. References are left empty. H5Ocopy is no option: in HDF5 1.10 it crashes when the original cannot be read.
void copy_dataset(const CopyLocations& places, const std::string& name);

/// Copies the attributes of a group or data set that both files have, except references, those already there, and those
/// named.
void copy_attributes(const CopyLocations& places, const std::string& object,
                     const std::vector<std::string>& except = {});

/// Makes the groups that the copy lacks and gives all of them their attributes; makes the further names that it lacks:
/// hard links as such where their data set is there, soft links as they are.
void copy_names(const CopyLocations& places, const FileNames& names);

}  // namespace mrmf::h5
