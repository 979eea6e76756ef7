// The choice of a grid for every phase of a plan: all grids whose groups fill the ranks are predicted, and the fastest
// that fits is taken.
#pragma once

#include <string>
#include <vector>

#include "src/planner/prediction.hpp"

namespace mrmf {

/// All grids of at most `most` blocks that divide `ranks`, along the last `axes` axes.
std::vector<Grid> grids_of(int ranks, int axes, int most = 512);

struct SearchSettings {
  RankPlaces ranks{};
  double memory = 0;     ///< bytes that a rank may use; 0: any
  Index mini_batch = 0;  ///< samples of a step over all ranks, of the plan's last phase; 0: as configured
  Shape sample;          ///< at full resolution
  double samples = 0, validated = 0, sample_bytes = 0;
  bool streamed = false;
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

/// One for each phase of the plan. The mini-batch over all ranks is the configured one, whatever the grid. ConfigError,
/// with the reasons, where no grid fits a phase.
std::vector<PhaseChoices> search_grids(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
                                       const SearchSettings& settings);

/// The grid that fits all phases and takes the fewest seconds of their epochs together; none if there is none.
struct OneGrid {
  Grid grid;
  double seconds = 0;
};
std::vector<OneGrid> one_grid(const std::vector<PhaseChoices>& phases);

}  // namespace mrmf
