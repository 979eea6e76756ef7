// Objects of one open HDF5 file, copied into another. Private to io/.
#pragma once

#include <string>

#include "io/hdf5_library.hpp"

namespace mrmf::h5 {

/// Where something is copied from and to; the paths are for messages.
struct CopyPlaces {
  hid_t from, to;
  std::string source, target;
};

/// A data set of any type, with its layout, filters, attributes and the groups on its way. Values that lie in other
/// files (of a virtual data set, or raw bytes beside the file) are copied too: from another folder their names would
/// lead nowhere. References are left empty.
/// DataError when it cannot be read or written.
void copy_dataset(const CopyPlaces& places, const std::string& name);

/// The attributes of a group or data set that is in both files, but for references and those that are there already.
void copy_attributes(const CopyPlaces& places, const std::string& object);

}  // namespace mrmf::h5
