// The attributes of netCDF and CF that say what an array's numbers mean, and what an array is for. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5_library.hpp"
#include "io/hdf5_names.hpp"
#include "io/packing.hpp"

namespace mrmf::h5 {

/// What the attributes of an open data set say of its numbers, which the file holds as `stored`. `what` is "<path>:
/// data set '<name>'". Where there is no _FillValue, netCDF's own default counts as missing if it is the data set's
/// fill value, as in the files that netCDF writes: in floats and scaled numbers, not in plain integers, which are often
/// classes or names of things, nor in bytes and _Unsigned integers, of which netCDF4 for Python masks none. DataError
/// for attributes that are no numbers, or limits that leave none, or NaN, infinite or zero where that means nothing, or
/// as many numbers as are not wanted.
Packing packing_of(const Dataset& dataset, ElementType stored, const std::string& what);

/// The names of these attributes.
const std::vector<std::string>& packing_attributes();

/// Whether an array is a dimension scale of HDF5, as the coordinates and dimensions of netCDF are: it numbers the
/// positions of other arrays, and holds no data.
bool is_dimension_scale(const Dataset& dataset, const std::string& what);

/// The dimension scales of each axis of a data set; none where they are unknown. They lie in the data set's own file.
std::vector<std::vector<ObjectIdentity>> scales_of_axes(const Dataset& dataset);

}  // namespace mrmf::h5
