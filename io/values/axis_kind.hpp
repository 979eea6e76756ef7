// What the axes of an array are, by what a file says of them: positions on a map, heights, times or channels.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

enum class AxisKind { unknown, horizontal, vertical, time, channels };

/// What a file calls an axis ("": nothing), and what it is by that.
struct NamedAxis {
  AxisKind kind = AxisKind::unknown;
  std::string name{};
};

/// Attributes of the coordinate along an axis, as CF has them; "": it has none of that name.
struct CoordinateSaid {
  std::string axis{}, standard_name{}, units{}, positive{};
};
AxisKind axis_kind(const CoordinateSaid& said);

/// By a name that netCDF files and people have for axes: "lat", "x", "level", "time", "band". Case and numbers at the
/// end do not count ("lon_0").
AxisKind axis_kind(const std::string& name);

/// Whether the columns of a table may be called so, too: of an axis alone, the name does not tell of a map.
bool may_name_columns(const std::string& name);

/// What an axis is may follow from the others: the height of images is none above the ground.
void settle_kinds(std::vector<NamedAxis>& axes);

}  // namespace mrmf
