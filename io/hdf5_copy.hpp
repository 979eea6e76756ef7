// Taking data sets over from one file into another.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace mrmf {

/// Every data set of the file by its path, also those in groups, alphabetically. DataError when it cannot be opened.
std::vector<std::string> all_datasets(const std::string& path);

/// Copies data sets of `source` with their attributes into the existing file `target`, which is closed. On one rank.
void copy_datasets(const std::string& source, const std::vector<std::string>& names, const std::string& target);

/// Copies the attributes of objects ("/" is the root) that the existing file `target`, which is closed, has not; not
/// references, whose objects are others there. On one rank.
void copy_attributes(const std::string& source, const std::vector<std::string>& objects, const std::string& target);

}  // namespace mrmf
