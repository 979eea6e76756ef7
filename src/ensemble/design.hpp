// An ensemble's design: points that are drawn, grids, and lists in CSV or HDF5 files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ensemble/spec.hpp"

namespace mrmf {

// Lists of points: the file of design.kind = "list".

/// A column of a list: the values of one key.
struct ListColumn {
  std::string key;
  std::vector<std::string> values;  ///< as they are written
  std::size_t not_a_number = 0;     ///< the first value that is none: its index; as many as there are if all are
  std::string where;                ///< of that value, or of the column
};

/// The columns of a CSV file, whose first line names the keys, or of an HDF5 file, with a data set for each key or one
/// with a column for each (design.dataset, design.columns). CSV as RFC 4180 has it; a byte order mark, spaces around
/// values, any ends of lines, and semicolons or tabs in place of commas are allowed. DataError, with the line, where
/// values are missing, not finite, or not as many as keys; ConfigError where a key is there twice.
std::vector<ListColumn> read_list_columns(const DesignSpec& design);

/// A cell of a CSV file, in quotes where it needs them.
std::string csv_cell(std::string_view text);

/// A finite number, or none. As people write them: "+1" is one, too.
std::optional<double> number_in_text(std::string_view text);

// The points of an ensemble: one value for each of the design's keys, for every member.

using Point = std::vector<double>;  ///< one coordinate per axis (Axis::text)

/// Keys that Sobol's sequence can have.
inline constexpr std::size_t kMostSobolKeys = 40;

/// Point `index` of Sobol's sequence in the unit cube, coordinate `axis` below kMostSobolKeys: 32 bits. The direction
/// numbers are those of Joe and Kuo (2008), new-joe-kuo-6.
std::uint32_t sobol_bits(std::uint64_t index, std::size_t axis);

/// Points of the unit cube: Sobol's sequence from `first` on, shifted by digits that `seed` draws.
std::vector<Point> sobol_points(std::size_t axes, Index first, Index count, std::uint64_t seed);
/// Of each axis's `count` equal strata, every one holds a point.
std::vector<Point> latin_hypercube(std::size_t axes, Index count, std::uint64_t seed);

/// The coordinate at `share` in [0, 1) of an axis's range or list.
double coordinate(const Axis& axis, double share);
/// The share of an axis's range at which a coordinate lies, in [0, 1].
double share_of(const Axis& axis, double coordinate);

/// All points of a spec; of a list, its keys become the spec's axes. ConfigError where there are fewer values than
/// members, or the file's columns are no keys; DataError where a list cannot be read.
std::vector<Point> make_design(EnsembleSpec& spec);

/// A checksum over points.
std::uint64_t checksum(const std::vector<Point>& points);

/// The points with a header, as CSV that a list reads again.
std::string design_csv(const EnsembleSpec& spec, const std::vector<Point>& points);

}  // namespace mrmf
