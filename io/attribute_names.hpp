// The attributes of an object of a file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/hdf5_file.hpp"

namespace mrmf {

/// Name and kind of every attribute, by name. `object` is a path; "": the file's root. None where it is not there.
/// DataError when the file cannot be opened.
std::vector<std::pair<std::string, DatasetInfo>> attributes_of(const std::string& path, const std::string& object);

}  // namespace mrmf
