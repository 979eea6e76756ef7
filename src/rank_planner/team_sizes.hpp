// The sizes of the two teams that train a stage's coarse and dense model at once (method.teams = "concurrent"), by
// prediction: every split of the ranks is tried.
#pragma once

#include <vector>

#include "src/rank_planner/rank_grid_search.hpp"

namespace mrmf {

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
