// Texts of attributes "units", and whether two of them mean the same units.
#pragma once

#include <string>

namespace mrmf {

/// Such a text in one line of UTF-8: what is not valid is taken for Latin-1.
std::string readable_units(const std::string& text);

/// Whether they differ in blanks and case at most, but for m and M in symbols of up to three letters: mW is not MW.
bool same_units(const std::string& one, const std::string& other);

}  // namespace mrmf
