// Whether two texts of attributes "units" mean the same units.
#pragma once

#include <string>

namespace mrmf {

/// Whether they differ in blanks and case at most, but for m and M in symbols of up to three letters: mW is not MW.
bool same_units(const std::string& one, const std::string& other);

}  // namespace mrmf
