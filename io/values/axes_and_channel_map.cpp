// What the axes of stored arrays are, by their names and attributes, and the normalisation of channels.
#include "io/values/axes_and_channel_map.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "io/files/text.hpp"  // in_small_letters()
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"

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
  if (said.units.find(" since ") != std::string::npos) return AxisKind::time;  // in whatever calendar
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

namespace {

std::vector<std::string> axis_names(const std::string& text) {
  std::string spaced = text;
  std::ranges::replace(spaced, ',', ' ');
  std::istringstream words(spaced);
  std::vector<std::string> names;
  for (std::string name; words >> name;) names.push_back(name);
  if (names.size() != 1) return names;
  const std::string letters = names.front();  // "ntc"
  names.clear();
  for (const char letter : letters) names.emplace_back(1, letter);
  return names;
}

/// Elements of one size, so that the compiler knows how to move them.
template <std::size_t Bytes>
void move_row(const ChannelBox& box, const std::byte* from, std::byte* to) {
  for (Index a = 0; a < box.before; ++a)
    for (Index c = 0; c < box.channels; ++c) {
      const std::byte* const line = from + static_cast<std::size_t>((a * box.channels + c) * box.after) * Bytes;
      std::byte* const first = to + static_cast<std::size_t>(a * box.after * box.channels + c) * Bytes;
      for (Index b = 0; b < box.after; ++b)
        std::memcpy(first + static_cast<std::size_t>(b * box.channels) * Bytes,
                    line + static_cast<std::size_t>(b) * Bytes, Bytes);
    }
}

}  // namespace

AxisOrder parse_axes(const std::string& text, const std::string& key) {
  const std::vector<std::string> names = axis_names(text);
  if (names.empty()) return {};
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(key + " is \"" + text + "\": " + why +
                      "; name the axes of a data set in the order of the file, n for samples, c for channels and any "
                      "other name for a position, such as \"n c y x\"");
  };
  if (const auto n = std::ranges::find(names, "n"); n != names.begin())
    refuse("the first axis counts the samples, and is named n" +
           (n == names.end() ? std::string()
                             : "; store the data set with them first, such as numpy.moveaxis(x, " +
                                   std::to_string(n - names.begin()) + ", 0)"));
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(name + 1, names.end(), *name) != names.end()) refuse("it names " + *name + " twice");
  AxisOrder order;
  order.axes = static_cast<int>(names.size()) - 1;
  const auto channel = std::ranges::find(names, "c");
  if (channel != names.end()) order.channel = static_cast<int>(channel - names.begin()) - 1;
  const int spatial = order.axes - (order.channel < 0 ? 0 : 1);
  if (order.axes == 0 || spatial > 3) refuse("a sample has one to three axes of positions, or channels alone");
  return order;
}

std::string axes_with_rows(const std::string& text) {
  const std::vector<std::string> names = axis_names(text);
  if (names.empty() || names.front() == "n") return text;
  std::string all = "n";
  for (const std::string& name : names) all += " " + name;
  return all;
}

std::vector<Index> channels_last(const std::vector<Index>& stored, const AxisOrder& order, const std::string& where) {
  if (!order.given()) return stored;
  if (std::ssize(stored) != order.axes + 1)
    throw DataError(where + " has " + std::to_string(stored.size()) + " axes, and data.axes names " +
                    std::to_string(order.axes + 1) + "; name every axis of the data set");
  std::vector<Index> shape = stored;
  if (order.channel < 0)
    shape.push_back(1);
  else
    std::rotate(shape.begin() + 1 + order.channel, shape.begin() + 2 + order.channel, shape.end());
  return shape;
}

Shape sample_shape(const std::vector<Index>& channels_last) {
  const std::size_t axes = channels_last.size();
  Shape shape;
  shape.axes = static_cast<int>(axes) - 2;
  for (std::size_t axis = 1; axis + 1 < axes; ++axis) shape.spatial[axis + 4 - axes] = channels_last[axis];
  shape.channels = channels_last.back();
  return shape;
}

ChannelBox channel_box(const Shape& sample, const AxisOrder& order) {
  ChannelBox box{product(sample.spatial), sample.channels, 1};
  if (!order.moves()) return box;
  box.before = 1;
  for (int axis = 0; axis < sample.axes; ++axis) {
    const Index size = sample.spatial[static_cast<std::size_t>(3 - sample.axes + axis)];
    (axis < order.channel ? box.before : box.after) *= size;
  }
  return box;
}

void move_channels_last(const ChannelBox& box, Index rows, Index element_bytes, const std::byte* from, std::byte* to) {
  const Index row_bytes = box.before * box.channels * box.after * element_bytes;
  for (Index row = 0; row < rows; ++row, from += row_bytes, to += row_bytes) {
    switch (element_bytes) {
      case 1: move_row<1>(box, from, to); break;
      case 2: move_row<2>(box, from, to); break;
      case 4: move_row<4>(box, from, to); break;
      default: move_row<8>(box, from, to); break;
    }
  }
}

bool looks_channels_first(const Shape& sample) {
  if (sample.axes == 0 || sample.channels < kManyChannels) return false;
  const Index first = sample.spatial[static_cast<std::size_t>(3 - sample.axes)];
  if (sample.axes == 1) return first < sample.channels;
  const auto others = sample.spatial.end() - sample.axes + 1;
  const Index shortest = *std::min_element(others, sample.spatial.end());
  return first < shortest && first < sample.channels && 2 * sample.channels >= shortest;
}

namespace {

/// Calls change(value, channel) for every value, line by line of channels.
template <typename Change>
void for_each_channel(const ChannelMap& map, Index first, Span values, const Change& change) {
  const auto channels = static_cast<Index>(map.scale.size());
  Index channel = first % channels;
  for (float& value : values) {
    change(value, static_cast<std::size_t>(channel));
    if (++channel == channels) channel = 0;
  }
}

}  // namespace

namespace {

/// The same where numbers are missing.
void apply_and_fill(const ChannelMap& map, Index first, Span values) {
  const std::size_t numbers = map.fill.size(), line = numbers + (map.mask ? 1 : 0);
  std::size_t c = static_cast<std::size_t>(first) % line;
  for (float& value : values) {
    if (c < numbers) {
      if (std::isnan(value)) {
        value = map.fill[c];
      } else {
        if (map.log1p) value = std::log1p(value);
        if (!map.scale.empty()) value = static_cast<float>(double{value} * map.scale[c] + map.shift[c]);
      }
    }
    if (++c == line) c = 0;
  }
}

}  // namespace

// In double: a mean may be many times larger than what is left after it.
void apply(const ChannelMap& map, Index first, Span values) {
  if (!map.fill.empty()) return apply_and_fill(map, first, values);
  if (map.log1p)
    for (float& value : values) value = std::log1p(value);
  if (map.scale.empty()) return;
  if (map.scale.size() == 1) {
    const double scale = map.scale.front(), shift = map.shift.front();
    for (float& value : values) value = static_cast<float>(value * scale + shift);
    return;
  }
  for_each_channel(map, first, values, [&](float& value, std::size_t c) {
    value = static_cast<float>(double{value} * map.scale[c] + map.shift[c]);
  });
}

void undo(const ChannelMap& map, Index first, Span values) {
  if (!map.scale.empty())
    for_each_channel(map, first, values, [&](float& value, std::size_t c) {
      value = static_cast<float>((double{value} - map.shift[c]) / map.scale[c]);
    });
  if (map.log1p)
    for (float& value : values) value = std::expm1(value);
}

}  // namespace mrmf
