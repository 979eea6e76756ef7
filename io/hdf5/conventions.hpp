// What netCDF and CF say of an array beside what its numbers mean: which dimensions it has, and whether it holds
// classes. Private to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/hdf5/library.hpp"

namespace mrmf::h5 {

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
