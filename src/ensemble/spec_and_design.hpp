// What an ensemble is told, the file of `mrmf ensemble` (spec.cpp), and its design: points that are drawn, grids, and
// lists in CSV or HDF5 files (design.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/simulators/member_simulator.hpp"

namespace mrmf {

// What an ensemble is told: the file of `mrmf ensemble`.

/// Members of an ensemble: a process keeps all of them in memory.
inline constexpr double kMostMembers = 1e7;

/// latin_hypercube: every key's range in as many strata as there are members, one member in each. sobol: Sobol's
/// sequence with a random digital shift. grid: all combinations. list: rows of a file.
enum class DesignKind { latin_hypercube, sobol, grid, list };

/// A key that differs between members, and the values that it takes.
struct Axis {
  std::string key;
  std::string where;                ///< for messages
  double from = 0, to = 0;          ///< without `values`
  bool logarithmic = false;         ///< even steps of the logarithm
  bool whole = false;               ///< whole numbers
  int count = 0;                    ///< values of a grid, from `from` to `to`
  std::vector<std::string> values;  ///< listed ones; a coordinate is the number, or of words the index in this list
  bool words = false;               ///< `values` are words

  /// The coordinate as --set, a command line and the table have it.
  std::string text(double coordinate) const;
};

struct DesignSpec {
  DesignKind kind = DesignKind::latin_hypercube;
  Index members = 0;  ///< 0: as many as a grid or a list has
  std::string file, dataset;
  std::vector<std::string> columns;  ///< columns of `dataset`, if not those of `axes`
  std::vector<Axis> axes;            ///< the axes, those of a list filled in from the file
};

/// Members are made by a simulator of this program.
struct SimulateSpec {
  std::string simulator;
  std::vector<SimulatorKey> keys;
  std::vector<double> values;            ///< one per key; an axis replaces its own
  std::vector<std::string> given;        ///< keys that the file sets; an axis is none of them
  std::vector<std::size_t> key_indices;  ///< the index of each axis among the keys
};

/// Members are trainings: a configuration, of which each member sets some keys.
struct TrainSpec {
  std::string config;
  std::vector<std::string> settings;
};

/// Members are calls of a program of the user's.
struct CommandSpec {
  std::string line;                   ///< the shell's command line, with {key}, {member}, {seed} and {output}
  std::string output = "member.h5";   ///< HDF5 file that it writes in its own folder
  std::vector<MemberArray> collect;   ///< data sets of that file, as float32
  std::vector<std::string> writable;  ///< other folders where it may write
};

/// After the design, members are added where models of what is there disagree most.
struct RoundsSpec {
  int count = 0;
  Index members = 0;  ///< added by each
  int models = 4;
  Index candidates = 1000;
  std::string config;  ///< the configuration file of the models
  std::vector<std::string> settings;
};

struct EnsembleSpec {
  std::string origin;  ///< the file, for messages
  std::string folder;
  std::uint64_t seed = 1;
  int retries = 2;
  Index most_failed = 0;
  int side_by_side = 0;  ///< members at once on a rank; 0: its cores
  int ranks_per_member = 1;
  double validation = 0.2;  ///< share of the members that the data set marks for validation
  DesignSpec design;
  std::optional<SimulateSpec> simulate;
  std::optional<TrainSpec> train;
  std::optional<CommandSpec> command;
  RoundsSpec rounds;
};

/// Reads and checks a file of at most 1 MiB; `settings` are "key=value", as of --set. ConfigError names the location:
/// unknown keys, with the nearest there is, keys that do not go together, and designs over keys that members do not
/// have.
EnsembleSpec read_ensemble(const std::string& path, const std::vector<std::string>& settings);

/// What members depend on, as TOML: two ensembles with the same text make the same members.
std::string identity(const EnsembleSpec& spec);

/// The line of the shell with the member's values in place of what stands in braces.
std::string command_line(const EnsembleSpec& spec, Index member, const std::vector<double>& point);

/// All keys of such a file, for people: its sections, and the keys of each simulator.
std::string ensemble_keys_text();

/// ConfigError where an axis is none of the members' keys, with the nearest there is; fills in where it goes.
void place_axes(EnsembleSpec& spec);

// Lists of points: the file of design.kind = "list".

/// A column of a list: the values of one key.
struct ListColumn {
  std::string key;
  std::vector<std::string> values;  ///< as they are written
  std::size_t not_a_number = 0;     ///< the first value that is none: its index; as many as there are if all are
  std::string where;                ///< where that value is, or the column
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
/// Points such that each of every axis's `count` equal strata holds one.
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
