// What a search found, as keys of a configuration.
#pragma once

#include <string>
#include <vector>

#include "src/planner/rank_grid_search.hpp"

namespace mrmf {

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
