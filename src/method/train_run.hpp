// A whole run: train_run() and cross-validation; and its preflight, what a run resolves, checks and says before it
// trains (preflight.cpp).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_log.hpp"

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
  Meetings* meetings = nullptr;  ///< a tournament's, for its trainers; null: there is none. Must outlive the call
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

// A run's configuration, resolved for its data.

/// Warnings for the run's log. They go to standard error when the run fails before it has a log.
class Warnings {
 public:
  explicit Warnings(const Comm& world) : world_(world) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  ~Warnings();

  void add(const std::vector<std::string>& lines) { lines_.insert(lines_.end(), lines.begin(), lines.end()); }
  /// What was added; it is the caller's to tell now.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  const Comm& world_;
};

/// A run's configuration and plan, with all that follows from its data written out.
struct ResolvedRun {
  Config config;
  Plan plan;
  DatasetShape shape;
  std::vector<std::string> reasons;  ///< reasons of "auto"
  bool automatic = false;
  DatasetShape validation{};
};

/// Writes into a configuration what follows from the labels and numbers of its training data, for networks at these
/// resolutions: classes, units, class weights, names. ConfigError where the network does not fit the labels.
/// Returns warnings. Collective; reads samples and labels where these are measured.
std::vector<std::string> resolve_from_data(Config& config, const DatasetShape& train,
                                           const std::vector<Extent>& resolutions, Comm& world);

/// Runs before the data are loaded for training. Looks at files, and at samples where "auto" or units ask for them. An
/// impossible plan is refused: ConfigError. Collective.
ResolvedRun resolve_run(Config config, Warnings& warnings, Comm& world);

// What is checked of a whole run before it trains, in the order in which it can be known: first what the launch alone
// says, then the plan for its data, then the folder, the backend and the data. Each check throws on every rank and
// leaves nothing behind. Rules that a plan for ranks keeps as well are those of
// src/training/memory_estimate_and_training_checks.hpp; those of keys alone are with the keys; resolve_run() and
// train_run() call them all.

class Backend;
class Checkpoints;
class Data;
class RunFolder;
struct ResolvedRun;

/// Before any file is opened. ConfigError: another number of ranks than run.ranks, or run.grid is not the same on all
/// ranks. Collective.
void check_launch(const RunConfig& run, Comm& world);

/// FaultError where the ranks read different configurations or data: they would wait for each other later. Collective.
void check_agreement(const Config& config, const DatasetShape& shape, Comm& world);

/// Before any data is read, so that an impossible plan costs nothing. ConfigError: axes, grids, batches or networks of
/// the plan that these samples and ranks do not allow.
void check_plan(const Plan& plan, const Config& config, const DatasetShape& shape, const Comm& world);

/// A part of check_plan(). ConfigError where training on so many ranks would refuse the batches of a phase, whatever
/// the samples hold. Every team of every stage is checked, but those that must first be measured. requires: grids whose
/// groups fill the ranks.
void check_batches(const Plan& plan, const Config& config, const DatasetShape& shape, int ranks);

/// On the root, once the folder is held. ConfigError where the run would replace the configuration that it reads: --set
/// would change what a run keeps. `asked` is what the run was asked for, as TOML.
void check_folder(const RunFolder& folder, const std::string& config_file, const std::string& asked);

/// Where the run begins: at a checkpoint, at another model (model.start), or anew. ConfigError where that cannot be. A
/// resumed run does not look at its start again: it may be gone. Collective.
void check_start(const ResolvedRun& run, const TrainRun& train, const Checkpoints& checkpoints, Comm& world);

/// ConfigError: keys that do not go together on this backend.
void check_backend(const ResolvedRun& run, const Backend& backend, int ranks);

/// ConfigError: ways in which so many ranks cannot add.
void require_ways(const Plan& plan, const Config& config, int ranks, bool on_cpu);

/// DataError: labels or samples that validate and have no logarithm, where data.normalise asks for one. Collective.
void check_validation(const Config& config, Data& data, Comm& world);

// What a run's log says before training begins.

class Backend;
class Data;

/// What a longer last phase does with the learning rate.
void tell_more_epochs(const Plan& plan, RunLog& log);

/// Reasons of "auto", the machine and the data. Teams (`by_teams`) read theirs later.
void tell_data(RunLog& log, const ResolvedRun& run, Data& data, const Backend& backend, int ranks, bool by_teams);

/// How ranks share samples, and shards.
void tell_sharing(RunLog& log, const ResolvedRun& run, bool shard_replicas, int ranks);

}  // namespace mrmf
