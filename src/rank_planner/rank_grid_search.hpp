// The choice of a grid for every phase of a plan: all grids whose groups fill the ranks are predicted, and the fastest
// that fits is taken. A grid cuts all of a network: where its layers are gathered follows from it
// (layers/partition.hpp). And what was found as keys of a configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/rank_planner/prediction.hpp"

namespace mrmf {

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

}  // namespace mrmf
