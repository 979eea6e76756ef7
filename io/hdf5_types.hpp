// Types of elements in HDF5 files, and what they are in memory. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/element.hpp"
#include "io/hdf5_library.hpp"

namespace mrmf::h5 {

/// What an element of a data set is in memory: one number, or several of one type.
struct Element {
  ElementType type = ElementType::other;  ///< the smallest of ours that holds all numbers of the file's
  /// Axes that an element adds to those of its data set: none of numbers, {2} of complex ones (real and imaginary
  /// part).
  std::vector<Index> axes;
};

/// The type in memory of numbers in any form that the library converts: integers and floats of any size, byte order and
/// number of bits (more than 64 bits become float64), enumerations, bit fields, complex numbers, and arrays of all
/// these.
Element element_of(hid_t file_type);

/// A user's name for any type: "64-bit integer", "complex float32", "string".
std::string describe(hid_t file_type);

/// The type as this machine holds it in memory, one number of Element::type after another; the library converts on the
/// way. Not of ElementType::other.
Type memory_type(hid_t file_type);

/// The type as our own files hold it: little-endian. Not of ElementType::other.
Type stored_type(ElementType type);

}  // namespace mrmf::h5
