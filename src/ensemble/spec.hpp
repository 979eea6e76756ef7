// What an ensemble is told: the file of `mrmf ensemble`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/simulators/member_simulator.hpp"

namespace mrmf {

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

}  // namespace mrmf
