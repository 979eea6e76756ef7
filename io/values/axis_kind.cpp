#include "io/values/axis_kind.hpp"

#include <algorithm>
#include <set>

#include "io/files/edit_distance.hpp"  // in_small_letters()

namespace mrmf {
namespace {

using AxisNames = std::set<std::string>;

const AxisNames kHorizontal{"lat",
                            "latitude",
                            "lats",
                            "rlat",
                            "nlat",
                            "lon",
                            "longitude",
                            "lons",
                            "rlon",
                            "nlon",
                            "x",
                            "xc",
                            "nx",
                            "y",
                            "yc",
                            "ny",
                            "width",
                            "w",
                            "h",
                            "i",
                            "j",
                            "ni",
                            "nj",
                            "easting",
                            "cell",
                            "ncells",
                            "south_north",
                            "west_east",
                            "northing",
                            "xi_rho",
                            "eta_rho",
                            "rows",
                            "cols",
                            "columns",
                            "projection_x_coordinate",
                            "projection_y_coordinate"};
const AxisNames kVertical{
    "z",      "nz",     "level",    "levels",        "lev",         "nlev",          "plev",  "depth",
    "deptht", "height", "alt",      "altitude",      "pressure",    "bottom_top",    "layer", "levelist",
    "sigma",  "hybrid", "isobaric", "isobaricinhpa", "model_level", "pressure_level"};
const AxisNames kTimes{"t", "time", "times", "date", "step", "lead_time", "valid_time", "month"};
const AxisNames kChannels{"c",         "channel", "channels", "band",    "bands",     "variable",
                          "variables", "feature", "features", "species", "component", "components"};

bool is_horizontal_standard(const std::string& name) {
  static const AxisNames names{"latitude",
                               "longitude",
                               "grid_latitude",
                               "grid_longitude",
                               "projection_x_coordinate",
                               "projection_y_coordinate",
                               "projection_x_angular_coordinate",
                               "projection_y_angular_coordinate"};
  return names.contains(name);
}

bool is_vertical_standard(const std::string& name) {
  static const AxisNames names{
      "height", "depth", "altitude", "air_pressure", "model_level_number", "geopotential_height"};
  const bool own = name.starts_with("atmosphere_") || name.starts_with("ocean_");  // "ocean_s_coordinate_g1"
  return names.contains(name) || (own && name.find("_coordinate") != std::string::npos);
}

// "degrees_north", "degree_E", "degreesN", as CF and the UDUNITS of old have them.
bool are_degrees_on_a_map(const std::string& units) {
  static const AxisNames ends{"north", "n", "east", "e"};
  for (const std::string start : {"degrees", "degree"})
    if (units.starts_with(start)) {
      const std::string rest = units.substr(start.size());
      return ends.contains(rest.starts_with('_') ? rest.substr(1) : rest);
    }
  return false;
}

}  // namespace

AxisKind axis_kind(const CoordinateSaid& said) {
  const std::string axis = in_small_letters(said.axis), name = in_small_letters(said.standard_name);
  if (axis == "x" || axis == "y") return AxisKind::horizontal;
  if (axis == "z") return AxisKind::vertical;
  if (axis == "t") return AxisKind::time;
  if (is_horizontal_standard(name)) return AxisKind::horizontal;
  if (is_vertical_standard(name)) return AxisKind::vertical;
  if (name == "time" || name == "forecast_period") return AxisKind::time;
  if (are_degrees_on_a_map(in_small_letters(said.units))) return AxisKind::horizontal;
  if (said.units.find(" since ") != std::string::npos) return AxisKind::time;
  const std::string positive = in_small_letters(said.positive);
  return positive == "up" || positive == "down" ? AxisKind::vertical : AxisKind::unknown;
}

AxisKind axis_kind(const std::string& name) {
  std::string word = in_small_letters(name);
  word.resize(word.find_last_not_of("0123456789") + 1);
  word.resize(word.find_last_not_of('_') + 1);
  if (kHorizontal.contains(word)) return AxisKind::horizontal;
  if (kVertical.contains(word)) return AxisKind::vertical;
  if (kTimes.contains(word)) return AxisKind::time;
  return kChannels.contains(word) ? AxisKind::channels : AxisKind::unknown;
}

bool may_name_columns(const std::string& name) {
  static const AxisNames names{"rows", "cols", "columns", "cell", "cells", "ncells", "i", "j"};
  return names.contains(in_small_letters(name));
}

void settle_kinds(std::vector<NamedAxis>& axes) {
  const auto is = [](const NamedAxis& axis, const char* name) { return in_small_letters(axis.name) == name; };
  if (std::ranges::none_of(axes, [&](const NamedAxis& axis) { return is(axis, "width"); })) return;
  for (NamedAxis& axis : axes)
    if (is(axis, "height") || is(axis, "depth")) axis.kind = AxisKind::horizontal;
}

}  // namespace mrmf
