// Coordinates of coarse copies: dimension scales of averaged axes.
#pragma once

#include <string>
#include <vector>

#include "io/axis_order.hpp"
#include "io/coarsen.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_names.hpp"

namespace mrmf {

/// A dimension scale of an averaged axis, averaged as the axis is.
struct CoarseScale {
  std::string name;
  std::vector<double> means;
};

/// Takes the dimension scales of averaged axes from `others`, the data sets that would be copied: a coordinate that
/// kept its length would number positions that are no more. Those of one number per position are averaged. `made` has
/// the names of the averaged samples, and gets a note for each; `names` are the source's. Not collective.
std::vector<CoarseScale> averaged_scales(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                         const FileNames& names, CoarseFile& made, std::vector<std::string>& others);

}  // namespace mrmf
