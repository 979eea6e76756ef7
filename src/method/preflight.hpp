// What comes before a run trains: its configuration is resolved for its data, it is checked, and the log says what it
// will do.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/plan.hpp"
#include "src/run/run_log.hpp"

namespace mrmf {

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
// leaves nothing behind. Rules that a plan for ranks keeps as well are those of src/training/training_checks.hpp; those
// of keys alone are with the keys; resolve_run() and train_run() call them all.

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
