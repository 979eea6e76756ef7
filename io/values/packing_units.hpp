// What the stored numbers of an array mean: scale, offset and missing values by the conventions of netCDF and CF, and
// units, compared as texts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// What the stored numbers of an array mean, by the conventions of netCDF and CF: packed numbers are a scale and an
// offset away from the real ones, and some numbers say that there is none.

/// Whether numbers are read as an array's attributes say (scale_factor, add_offset, _FillValue, missing_value,
/// valid_min, valid_max, valid_range, _Unsigned), or as they are stored.
enum class PackingRule { apply, ignore };

/// The attributes of one array. Which numbers are missing is decided in stored numbers, before these are scaled.
struct Packing {
  ElementType stored = ElementType::float32;  ///< type of the numbers in the file; unsigned where _Unsigned says so
  double scale = 1, offset = 0;
  std::vector<long double> missing{};          ///< stored numbers that say that there is none; a long double holds each
  std::optional<long double> least{}, most{};  ///< stored numbers below or above are missing, too

  bool declared = false;  ///< the attributes tell what is missing, if only NaN
  /// What other attributes say that nothing applies, and what to do, for people: "ScaleFactor = 0.01 is not applied;
  /// ..."; "" where there is nothing to say.
  std::string not_applied{};

  bool operator==(const Packing&) const = default;
  bool scaled() const { return scale != 1 || offset != 0; }
  bool marks() const { return !missing.empty() || least || most; }
  /// Nothing is to be done: stored numbers are the real ones.
  bool plain() const { return !scaled() && !marks(); }
  /// The type of the numbers in memory: the stored one, if plain or float64; float64 for whole ones of 32 bits or more;
  /// else float32.
  ElementType type() const;
  /// Whole numbers: integers that are not scaled. Some may be missing.
  bool whole() const { return !is_float(stored) && !scaled(); }
  /// Numbers may be unpacked where they were read to.
  bool in_place() const { return type() == stored; }

  /// From `count` stored numbers to as many of type(), in double; what is missing becomes NaN. Both may be the same
  /// memory where in_place(), else they must not overlap. On the calling thread.
  void unpack(const void* from, Index count, void* to) const;

  /// "packed int16: value * 0.01 + 273.15; -32767 is missing", for people; "" where there is nothing to say.
  std::string text() const;
};

/// A number as this type holds it: rounded by floats, exact in integers. None where the type has no such number. With
/// `wraps`, a negative number means the unsigned one of the same bits.
std::optional<long double> as_stored(long double number, ElementType type, bool wraps = false);

/// The unsigned type of as many bits; other types stay.
ElementType unsigned_type(ElementType type);

// Limits of valid numbers, in the type that a file stores.

/// A limit of an array's numbers in the type that the file stores.
struct StoredLimit {
  std::optional<long double> number{};  ///< the outermost of this type that is within; none: all are
  bool none_within = false;
};

/// Which of two limits it is.
enum class LimitSide { least, most };

/// Whole numbers are within a limit between two of them when the next one further in is; floats round it.
StoredLimit stored_limit(long double number, LimitSide side, ElementType type);

// Texts of what arrays say of the size of their numbers: units, and scales that nothing applies. Which of them mean the
// same, and how messages tell two apart.

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

/// Whether these are the units of times: "seconds since 1970-01-01", as CF and netCDF's tools have them.
bool are_times(const std::string& units);

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
