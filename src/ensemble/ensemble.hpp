// A whole ensemble: its members are made, whatever is left of them, and collected.
#pragma once

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "src/ensemble/folder.hpp"
#include "src/ensemble/spec.hpp"

namespace mrmf {

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
