#include "io/values/unit_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <sstream>

#include "io/files/readable_text.hpp"

namespace mrmf {
namespace {

constexpr std::array<OtherScale, 9> kOtherScales{{
    {"unitSI", "", "", false},                  // openPMD
    {"conversion", "offset", "unit", false},    // NWB, which has it beside a unit
    {"ScaleFactor", "Offset", "", true},        // HDF-EOS5
    {"Scale", "Offset", "Offset", true},        // the size of a pixel is a Scale, too, but has no Offset
    {"Slope", "Offset", "Offset", true},        // products of GCOM-C
    {"Slope", "Intercept", "Intercept", true},  // products of FengYun
    {"slope", "intercept", "intercept", true},  // products of SeaDAS
    {"CalibrationFactor", "", "", true},
    {"SCALE FACTOR", "", "", true},  // products of GCOM-W
}};

/// The words of a text, with one blank between them, as far as their spelling counts.
std::string plain_units(const std::string& text) {
  constexpr std::size_t longest_symbol = 3;
  std::string plain;
  std::istringstream words(readable_text(text));
  for (std::string word; words >> word;) {
    const bool symbol = static_cast<std::size_t>(std::ranges::count_if(
                            word, [](unsigned char c) { return std::isalpha(c) != 0; })) <= longest_symbol;
    for (char& c : word)
      if (!symbol || c != 'M') c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    plain += (plain.empty() ? "" : " ") + word;
  }
  return plain;
}

/// A text of units_text(), taken apart.
struct Parts {
  std::string units, scales;

  explicit Parts(const std::string& text) : units(text) {
    if (!text.ends_with(')')) return;
    for (const OtherScale& one : kOtherScales) {
      const std::size_t begin = text.rfind("(" + std::string(one.scale) + " = ");
      if (begin == std::string::npos || (begin > 0 && text[begin - 1] != ' ')) continue;
      units = text.substr(0, begin == 0 ? 0 : begin - 1);
      scales = text.substr(begin + 1, text.size() - begin - 2);
      return;
    }
  }

  /// The scales but for those of 1 and offsets of 0, which change nothing.
  std::string changing() const {
    std::string all;
    for (std::size_t begin = 0; begin < scales.size();) {
      const std::size_t end = std::min(scales.find(", ", begin), scales.size());
      const std::string one = scales.substr(begin, end - begin);
      if (!changes_nothing(one)) all += (all.empty() ? "" : ", ") + one;
      begin = end + 2;
    }
    return all;
  }

 private:
  static bool changes_nothing(const std::string& scale) {
    const std::string name = scale.substr(0, scale.find(" = "));
    const bool offset = std::ranges::any_of(kOtherScales, [&](const OtherScale& one) { return name == one.offset; });
    return scale == name + (offset ? " = 0" : " = 1");
  }
};

/// Of texts that both say something.
bool same_units_of(const Parts& one, const Parts& other) {
  return one.units.empty() || other.units.empty() || plain_units(one.units) == plain_units(other.units);
}

}  // namespace

std::span<const OtherScale> other_scales() { return kOtherScales; }

std::string units_text(const std::string& units, const std::string& scales) {
  if (scales.empty()) return units;
  return units + (units.empty() ? "(" : " (") + scales + ")";
}

bool same_units(const std::string& one, const std::string& other) {
  if (one == other) return true;
  if (one.empty() || other.empty()) return plain_units(one) == plain_units(other);
  const Parts here(one), there(other);
  return same_units_of(here, there) && here.changing() == there.changing();
}

bool fit_units(const std::string& recorded, const std::string& text) {
  const Parts known(recorded);
  return same_units(recorded, text) || (known.scales.empty() && same_units_of(known, Parts(text)));
}

UnitsDifference units_difference(const std::string& here, const std::string& there) {
  const Parts one(here), other(there);
  if (!same_units_of(one, other)) return {"units of " + one.units, other.units, ""};
  const std::string unapplied = "a scale that is not applied, ", remedy = "store what these numbers mean";
  if (one.scales.empty()) return {"no scale", unapplied + other.scales, remedy};
  return {unapplied + one.scales, other.scales.empty() ? "none" : other.scales, remedy};
}

}  // namespace mrmf
