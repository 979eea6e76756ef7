// The groups of a file of which each is one sample. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/data_file.hpp"
#include "io/dataset.hpp"

namespace mrmf {

/// The paths of the groups that fit the specification's pattern, in HDF5's order of names on every level: by bytes, so
/// that "sim_10" comes before "sim_2". "*" and "?" stand for parts of one name, and a slash parts names, as in
/// "train/sim_*". Where the pattern's last name is "*", groups that hold none of the specification's arrays are left
/// out, as those of metadata. DataError when there is no group.
std::vector<std::string> groups_of(const DataFile& file, const DatasetSpec& spec);

}  // namespace mrmf
