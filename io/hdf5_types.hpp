// Element types as HDF5 knows them. Private to io/hdf5_*.cpp and io/row_reader.cpp.
#pragma once

#include <string>

#include "io/element.hpp"
#include "io/hdf5_library.hpp"

namespace mrmf::h5 {

/// Which of our element types a file's type is, in either byte order.
ElementType element_type(hid_t file_type);

/// A user's name for any HDF5 type: "64-bit integer", "string", "compound".
std::string describe(hid_t file_type);

/// The type as this machine holds it in memory; the library swaps bytes on the way. HDF5 1.10 has no half type of
/// its own, so float16 is built from the file's type.
Type memory_type(ElementType type, hid_t file_type);

}  // namespace mrmf::h5
