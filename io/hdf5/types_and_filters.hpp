// What an HDF5 array is: how its numbers are stored and what they are in memory, filters that pack its chunks, and what
// the attributes of netCDF and CF say of it. Private to io/.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/hdf5/library.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"

namespace mrmf::h5 {

// How numbers are stored in HDF5 files, and what they are in memory: types of elements, filters that pack chunks, and
// attributes that say what numbers mean. Private to io/.

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

// Filters that pack the chunks of data sets.

/// Which filter of a data set the library does not have, and what to do: "is packed by filter 32015 (zstd), ...".
/// Nothing where it has all of them. With `used`, only if the first of the chunks went through it: what a filter did
/// not make smaller may be stored as it is.
std::optional<std::string> missing_filter(const Dataset& dataset, bool used);

/// DataError, as missing_filter() has it of a filter that was used. `what` is "<path>: data set '<name>'".
void require_filters(const Dataset& dataset, const std::string& what);

// The attributes of netCDF and CF that say what an array's numbers mean, and what an array is for.

/// What the attributes of an open data set say of its numbers, which the file holds as `stored`. `what` is "<path>:
/// data set '<name>'". Where there is no _FillValue, netCDF's own default counts as missing if it is the data set's
/// fill value, as in the files that netCDF writes: in floats and scaled numbers, not in plain integers, which are often
/// classes or names of things, nor in bytes and _Unsigned integers, of which netCDF4 for Python masks none. DataError
/// for attributes that are no numbers, or limits that leave none, or NaN, infinite or zero where that means nothing, or
/// as many numbers as are not wanted.
Packing packing_of(const Dataset& dataset, ElementType stored, const std::string& what);

/// The names of these attributes.
const std::vector<std::string>& packing_attributes();

/// What attributes say of the size of a data set's numbers, beside netCDF's.
struct NumbersSaid {
  std::string
      units;  ///< units_text() (io/values/packing_units.hpp), in one line: units, and scales that are not applied
  std::string not_applied;  ///< Packing::not_applied
};
/// With PackingRule::ignore, units alone. Opens the sources of a virtual data set, whose attributes are not applied
/// either.
NumbersSaid numbers_said(const Dataset& dataset, PackingRule rule);

/// What a data set or attribute of this type calls its numbers: an enumeration type does, and attributes of a data set.
/// Of those that cannot be read there are none.
NumberNames number_names(hid_t object, hid_t type);

/// Whether an array is a dimension scale of HDF5, as the coordinates and dimensions of netCDF are: it numbers the
/// positions of other arrays, and holds no data.
bool is_dimension_scale(const Dataset& dataset, const std::string& what);

/// The dimension scales of each axis of a data set; none where they are unknown. They lie in the data set's own file.
std::vector<std::vector<ObjectIdentity>> scales_of_axes(const Dataset& dataset);
/// Calls `found` with each of these, open, and the number of its axis.
void for_each_scale(const Dataset& dataset, const std::function<void(std::size_t axis, const Object& scale)>& found);

// What netCDF and CF say of an array beside what its numbers mean: which dimensions it has, and whether it holds
// classes. Private to io/.

/// netCDF's numbers of dimensions, which are one file's own: that of the dimension that an array is, and those of its
/// axes. netCDF goes by the latter where an array has no list of its dimension scales.
struct NetcdfDimensions {
  std::optional<int> own{};
  std::vector<int> of_axes{};
};

/// Nothing where netCDF did not write the data set. DataError when it cannot be opened.
NetcdfDimensions netcdf_dimensions(const DataFile& file, const std::string& dataset);

/// What CF's attributes of an array say of other arrays, and whether it holds times. Nothing of damaged attributes.
ArrayRoles roles_of(const Dataset& dataset);

/// The attributes of CF by which an array says that its numbers are classes, or bits of several.
const std::vector<std::string>& flag_attributes();

/// By what a data set says that its numbers are classes or flags: "attribute 'flag_values'", "enumeration type"; ""
/// where it does not. DataError when it cannot be opened.
std::string classes_told(const DataFile& file, const std::string& dataset);

}  // namespace mrmf::h5
