// An ensemble, from its spec to the data set that it comes to (scheduler.cpp, collect.cpp, ensemble.cpp).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/folder.hpp"
#include "src/ensemble/spec.hpp"

namespace mrmf {

// Making what is left of an ensemble's members, several at once, on one rank or many.

/// Everything that making members needs, the same on all ranks.
struct Ensemble {
  EnsembleSpec spec{};
  std::vector<Point> points{};   ///< of the design, then those that rounds have added
  Index designed = 0;            ///< the former
  std::string folder{};          ///< of the part
  std::vector<Index> pending{};  ///< members to be made
  std::vector<int> attempts{};   ///< that each member had before
};

struct Made {
  Index members = 0;  ///< by all ranks
  int signal = 0;     ///< that one of them got; 0: none
};

/// Collective. Makes the pending members, and keeps each in rows.bin and in a journal as it is done. Ranks draw members
/// as they are ready for more. Ends early after a stop signal. `beat` is called now and then with the members that this
/// rank has made. DataError where they cannot be kept; what failed of a member is in the journal alone.
Made make_pending(const Ensemble& ensemble, Comm& world, const std::function<void(Index)>& beat);

// What an ensemble comes to: one data set that `mrmf train` reads, and one table.

/// A row is numbers of its parts, one part after the other, in this file of a folder.
inline constexpr const char* kRowsName = "/rows.bin";

/// Which of so many members validate: about `share` of them, by `seed`, and one at least of two or more.
std::vector<bool> validation_members(const std::vector<Index>& members, double share, std::uint64_t seed);

/// Collective. Writes the rows of all members that are done, in their order, into data.h5, whole or not at all:
///   the members' own parts   as they made them
///   labels      (n, keys)    float32, each key's range or list scaled to [-1, 1]
///   parameters  (n, keys)    float64, the keys' values
///   summaries   (n, 4 x c)   float32: of each of the c channels of the first part mean, deviation, least and most
///   member      (n,)         uint32    split  (n,)  uint8: 1 validates
///   meta.JSON                what it was made of
/// Returns the members whose rows are not what their journals say; then nothing was written.
std::vector<Index> collect(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members,
                           Comm& world);

/// The table, with a line for each member.
std::string members_csv(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members);

/// The [data] section of a configuration that trains on the data set.
std::string data_section(const EnsembleSpec& spec);

// A whole ensemble: its members are made, whatever is left of them, and collected.

struct EnsembleRun {
  ArrayTask part;               ///< this task's share of a job array; the whole ensemble collects, its parts do not
  bool retry_failed = false;    ///< members that failed for good are tried anew
  std::ostream* out = nullptr;  ///< for lines to people, on the root
  bool terminal = false;        ///< `out` is a terminal: show a live line
};

struct EnsembleReport {
  Index members = 0, done = 0;  ///< members of the ensemble, or of the part
  Index made = 0;               ///< by this call
  Index twice = 0;              ///< that journals call done more than once: rows that were damaged and made anew
  double seconds = 0;           ///< this call's
  double member_seconds = 0;    ///< those of all members that are done, added up
  std::vector<std::pair<Index, std::string>> failed;  ///< for good, with the reason
  std::string data;                                   ///< the data set; "" where nothing was collected
};

/// Collective. Makes what is left of the members, several at once on each rank, and then, unless this is a part,
/// collects: data.h5, data.toml, members.csv and result.json in spec.folder. What was made is kept whenever this ends.
/// Throws Stopped after a stop signal: the same call continues. ConfigError where the folder is another ensemble's, or
/// somebody works in it; FaultError where a member wrote outside of its folder. Failed members are no error here.
EnsembleReport run_ensemble(EnsembleSpec spec, const EnsembleRun& run, Comm& world);

/// The report as JSON, for programs; `program`, where it is given, comes first.
std::string to_json(const EnsembleReport& report, const std::string& program = "");

/// "17, 401 and 3 more": the members' numbers, for a message.
std::string failed_text(const EnsembleReport& report, int retries);

}  // namespace mrmf
