// A whole training run: from a configuration to a finished run folder; and one for every fold of a split
// (cross_validation.cpp). `mrmf train` is a call of this, and so is a program of yours that trains
// (docs/guide/installing.md).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/config/config.hpp"
#include "src/run/records.hpp"

namespace mrmf {

// A whole training run: from a configuration to a finished run folder. `mrmf train` is a call of this, and so is a
// program of yours that trains (docs/guide/installing.md).

class Meetings;
class Warnings;
struct ResolvedRun;

/// What a run is told beside its configuration.
struct TrainRun {
  bool overwrite = false;        ///< begin anew in a folder that holds a run, finished or not
  std::ostream* out = nullptr;   ///< for lines to people, on the root; none: the run is silent. Must outlive the call
  bool terminal = false;         ///< `out` is a terminal: show a live progress line
  std::string config_file{};     ///< the file that the configuration was read from; "" when there is none
  bool continued = false;        ///< config is of the run in its folder; its last phase may have more epochs
  bool more_epochs = false;      ///< its last phase does have more epochs than before
  bool changed_data = false;     ///< it may continue although the numbers in its data files have changed
  Meetings* meetings = nullptr;  ///< of a trainer in a tournament; null: there is none. Must outlive the call
  Comm* launched = nullptr;      ///< all ranks that share the nodes' cores and GPUs; null: those that train
};

/// Trains as the configuration says, into config.run.folder, or continues a run that was stopped there. Returns what
/// result.json says. Collective over `world`: every rank gives the same configuration.
///
/// While it trains it handles stop signals (src/run/signals.hpp). It throws Stopped when one came and the run is saved:
/// the same call then continues. Throws ConfigError, DataError and FaultError (kernels/errors.hpp). An error that one
/// of several ranks sees alone is thrown there alone; MpiEnvironment::abort() then ends the others.
RunResult train_run(Config asked, const TrainRun& train, Comm& world);

/// What an answer of train_run() begins with: before any file is opened. ConfigError as check_launch(). Collective.
void begin_launch(const RunConfig& run, Comm& world);
/// The rest of it, once the run is resolved. `asked` is what it was asked for, as TOML. Collective over the ranks that
/// train; and over train.launched, where there is one.
RunResult train_resolved(const ResolvedRun& run, const std::string& asked, const TrainRun& train, Warnings& warnings,
                         Comm& world);

// `mrmf train --folds`: a run for every fold of a split.

/// Trains every fold of data.split into a folder of its own (src/run/run_folder.hpp) and returns these. A fold that
/// is done is left as it is, and one that was stopped continues. Each is trained by run.ranks ranks (1 unless set), so
/// that a world of more ranks trains several side by side, on a share of the node's cores and memory. `tell` gets a
/// line for each, on the root of the ranks that train it; what the folds' own runs print goes to `train.out` where they
/// are trained one after the other. What the folds were asked for with is kept in the folder: other settings are
/// refused there, unless `train.overwrite`, and so is a folder that has more folds. Collective. ConfigError where the
/// split has no folds, or the ranks make no whole number of teams; throws as train_run().
std::vector<std::string> train_folds(const Config& config, const TrainRun& train, Comm& world,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace mrmf
