// What is checked of a whole run before it trains, in the order in which it can be known: first what the launch alone
// says, then the plan for its data, then the folder, the backend and the data. Each check throws on every rank and
// leaves nothing behind. Rules that a plan for ranks keeps as well are those of src/training/run_rules.hpp; those of
// keys alone are with the keys; resolve_run() and train_run() call them all.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

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

}  // namespace mrmf
