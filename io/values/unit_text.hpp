// Texts of what arrays say of the size of their numbers: units, and scales that nothing applies. Which of them mean the
// same, and how messages tell two apart.
#pragma once

#include <span>
#include <string>

namespace mrmf {

/// Attributes by which conventions other than netCDF's say that a stored number is times a scale, plus an offset.
/// Nothing applies them: their formulas differ, and some are there beside netCDF's own, to say the same.
struct OtherScale {
  const char* scale;
  const char* offset;      ///< read beside `scale` alone, as its name may mean much; "": there is none
  const char* beside;      ///< without this attribute, `scale` may mean something else; "": its name is clear
  bool instead_of_netcdf;  ///< not read beside scale_factor or add_offset, which say the same; else it is of units
};
std::span<const OtherScale> other_scales();

/// Both in one text, such as "volts (conversion = 1e-06, offset = 0)". `scales` are written "NAME = number", with ", "
/// between them; either may be empty.
std::string units_text(const std::string& units, const std::string& scales);

/// Whether such texts mean the same. Units do if they differ in blanks and case at most, but for m and M in symbols of
/// up to three letters: mW is not MW. Where one of two has none beside its scales, these alone count; no scale is that
/// of 1 and 0. An empty text is the same as an empty one alone.
bool same_units(const std::string& one, const std::string& other);

/// The same of units that a run has recorded. Earlier versions recorded no scales, so that any fit such ones.
bool fit_units(const std::string& recorded, const std::string& text);

/// What is not the same in two such texts, for "A has <here>, but B has <there>", and what to do where these are
/// scales; "" where they are units.
struct UnitsDifference {
  std::string here, there, remedy;
};
UnitsDifference units_difference(const std::string& here, const std::string& there);

}  // namespace mrmf
