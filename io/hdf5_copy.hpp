// Copies of data sets and attributes from one HDF5 file into another. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5_library.hpp"

namespace mrmf::h5 {

/// Source and target of a copy; the paths are for messages.
struct CopyPlaces {
  hid_t from, to;
  std::string source, target;
};

/// Copies a data set of any type with its layout, filters, attributes and parent groups. Values that lie in other files
/// (of a virtual data set, or raw bytes beside the file) are copied too: from another folder their names would lead
/// nowhere. References are left empty. H5Ocopy is no option: in HDF5 1.10 it crashes when the original cannot be read.
void copy_dataset(const CopyPlaces& places, const std::string& name);

/// Copies the attributes of a group or data set that both files have, except references, those already there, and those
/// named.
void copy_attributes(const CopyPlaces& places, const std::string& object, const std::vector<std::string>& except = {});

}  // namespace mrmf::h5
