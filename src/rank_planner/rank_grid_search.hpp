// The choice of a grid for every phase of a plan (rank_grid_search.cpp) and of the sizes of concurrent teams
// (team_sizes.cpp), by the seconds and memory that are predicted of each (epoch_time_and_memory.cpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.hpp"
#include "src/rank_planner/cost_model.hpp"
#include "src/training/memory_estimate.hpp"

namespace mrmf {

// Seconds of an epoch and memory of a rank, for one phase of a plan on so many ranks with one grid. The slowest block
// counts.

/// Where an epoch's seconds go.
struct EpochSeconds {
  double compute = 0;   ///< forward, loss and backward
  double waiting = 0;   ///< for the slowest rank, in training and validation
  double messages = 0;  ///< between the ranks that share samples
  double sums = 0;      ///< over ranks: gradients and statistics
  double update = 0;    ///< optimizer
  double load = 0;      ///< batches from memory or, streamed, as far as files are slower than the rest
  double validation = 0;
  double all() const { return compute + waiting + messages + sums + update + load + validation; }
};

/// What is trained, and on what.
struct Workload {
  NetworkSettings network;  ///< max_rows does not matter
  Grid grid{};
  RankLayout ranks{};
  Index batch = 1;                    ///< batch of a sample group
  double samples = 0, validated = 0;  ///< training and validation samples of an epoch, over all ranks
  double sample_bytes = 0;            ///< bytes of a whole sample in its file, at full resolution; 0: unknown
  bool streamed = false;              ///< samples are read again in every epoch
  bool reproducible_sums = false;     ///< sums do not depend on the order of ranks (Comm::sum_reproducibly)
  TrainingConfig training{};

  int sample_groups() const { return ranks.ranks / grid.ranks(); }
};

/// What a unit of the slowest block costs in a training step: a layer, or several fused into one, with the exchange in
/// front of it.
struct LayerCost {
  std::string first, last;  ///< names of its layers; both empty: what the last layer's output is exchanged for
  Shape block, whole;       ///< its output on this block, and of whole samples
  double compute = 0;       ///< seconds, with the copies of a halo exchange
  double message_seconds = 0;
  int messages = 0;  ///< that this rank sends, forward and backward
  double sent = 0;   ///< bytes of them
  double seconds() const { return compute + message_seconds; }
};

struct Prediction {
  EpochSeconds epoch;
  Index steps = 0;
  RunMemory memory;  ///< memory of the rank that needs most; without the program and its libraries' scratch
  GridLayers layers;
  std::vector<LayerCost> costs;      ///< costs of the slowest block, in the order of execution
  int slowest = 0;                   ///< block
  double sent = 0;                   ///< bytes that the slowest block sends in a step's forward and backward
  double measured = 0, between = 0;  ///< shares of the computed time that come from exact or neighbouring sizes
};

/// ConfigError where the grid does not fit the network (Partition).
Prediction predict(Backend& backend, const CostModel& costs, const Workload& work);

// The choice of a grid for every phase of a plan: all grids whose groups fill the ranks are predicted, and the fastest
// that fits is taken. A grid cuts all of a network: where its layers are gathered follows from it
// (layers/partition.hpp). And what was found as keys of a configuration.

/// All grids of at most `most` blocks that divide `ranks`, along the last `axes` axes. Few blocks come first, and of as
/// many those that cut earlier axes, whose positions at a cut lie together. So these win where predictions are equal.
std::vector<Grid> grids_of(int ranks, int axes, int most = 512);

struct SearchSettings {
  RankLayout ranks{};
  double memory = 0;     ///< bytes that a rank may use; 0: any
  Index mini_batch = 0;  ///< samples of a step over all ranks, of the plan's last phase; 0: as configured
  Shape sample;          ///< at full resolution
  double samples = 0, validated = 0, sample_bytes = 0;
  bool streamed = false;
  bool on_cpu = true;  ///< where training would run: some rules hold there alone
};

struct GridChoice {
  Grid grid;
  Index batch = 1;  ///< training.batch with it
  Prediction prediction;
  double seconds() const { return prediction.epoch.all(); }
};

/// A phase's grids, the fastest first, and why others are not among them: one line for each reason.
struct PhaseChoices {
  Phase phase;
  Index mini_batch = 1;  ///< over all ranks, with every grid
  std::vector<GridChoice> fitting;
  std::vector<std::string> refused;
};

/// A phase of the plan as predict() takes it: with its configured grid and batch, on all ranks.
Workload workload_of(const Config& config, const Plan& plan, const SearchSettings& settings, const Phase& phase);

/// ConfigError where so many ranks, or sample groups, cannot take this batch of a phase, as training would refuse it.
void require_batch(const Config& config, const Plan& plan, const SearchSettings& settings, Phase phase, Index batch,
                   int groups);
/// "a rank would need ... and may use ..."; empty where it has the memory.
std::string memory_refusal(const Prediction& prediction, const SearchSettings& settings, const CostModel& costs);

/// One for each phase of the plan. The mini-batch over all ranks is the configured one, whatever the grid. Only what
/// training accepts is among them. ConfigError, with the reasons, where no grid fits a phase, or no ranks train these
/// settings.
std::vector<PhaseChoices> search_grids(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
                                       const SearchSettings& settings);

/// The grid that fits all phases and takes the fewest seconds of their epochs together; none if there is none.
struct OneGrid {
  Grid grid;
  double seconds = 0;
};
std::vector<OneGrid> one_grid(const std::vector<PhaseChoices>& phases);

/// A grid for each of the plan's resolutions, coarse to fine.
struct GridPerResolution {
  std::vector<Grid> grids;
  double seconds = 0;  ///< seconds of all epochs, and of reading
  double reading = 0;  ///< reading the data anew wherever the grid changes
};
/// Those that take the fewest seconds together: the shortest path over resolutions and grids, where a change of grid
/// costs `reading` seconds. None where no grid fits all phases of some resolution.
std::optional<GridPerResolution> grid_per_resolution(const Plan& plan, const std::vector<PhaseChoices>& phases,
                                                     double reading);

// What a search found, as keys of a configuration.

struct ProposedRun {
  std::vector<Grid> grids;       ///< one for all resolutions, or one for each of them
  std::vector<Index> batches;    ///< batches of the plan's phases: of a rank, or of a sample group
  std::vector<int> team_shares;  ///< ranks of concurrent teams, dense and coarse; empty: as configured
  int ranks = 0;                 ///< that it is for
};

/// The batches with these grids, one for all phases or one for each of the plan's resolutions.
ProposedRun proposed_run(const Plan& plan, const std::vector<PhaseChoices>& phases, const std::vector<Grid>& grids);

/// The configuration with run.grid, method.team_shares, run.ranks where it is set, and the batches: training.batch is
/// that of the last phase, and roles or stages whose phases have another one name it.
Config proposed_config(const Config& config, const ProposedRun& found);

/// The keys that it sets, "run.grid = [2]". Samples have so many axes.
std::vector<std::string> proposed_keys(const Config& planned, const ProposedRun& found, int axes);

// The sizes of the two teams that train a stage's coarse and dense model at once (method.teams = "concurrent"), by
// prediction: every split of the ranks is tried.

/// What the teams of one stage take for all epochs of their models.
struct StageTeams {
  int stage = 1;
  double dense = 0, coarse = 0;  ///< seconds
  double seconds() const { return dense > coarse ? dense : coarse; }
};

struct TeamChoice {
  int dense = 1, coarse = 1;  ///< ranks
  std::vector<StageTeams> stages;
  double seconds() const;  ///< seconds of all stages: each takes as long as its slower team
};

/// All splits whose teams have a sample and the memory for each rank, the fastest first. Empty for a plan without
/// concurrent teams. `phases` are those that search_grids() found for the plan: a rank's batch is that of a phase
/// without a grid. ConfigError where no split fits, or for less than two ranks.
std::vector<TeamChoice> search_team_sizes(Backend& backend, const CostModel& costs, const Config& config,
                                          const Plan& plan, const SearchSettings& settings,
                                          const std::vector<PhaseChoices>& phases);

}  // namespace mrmf
