// A fusion stage whose coarse and dense model are trained at once, by two teams (paper 3.4).
#pragma once

#include <array>

#include "src/method/teams.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

struct ConcurrentStage {
  const Plan& plan;
  const Config& config;
  const Stage& stage;
  TeamSizes teams;
};

struct TrainedAtOnce {
  Learner dense;
  std::array<StageRecord, 2> records;  ///< coarse, dense
  double elapsed = 0;                  ///< seconds of the run until the later team was there
};

/// Trains `coarse` on the coarse team and a new dense model on the other. The team that is ready first waits for the
/// other, for however long that takes, and its wait goes into its record. Then two broadcasts over all ranks hand round
/// what the fusion needs: the coarse model's bottom, from the first rank of its team, and the dense model's top.
/// Afterwards all ranks are ready to fuse them, and at.data is a team's: load it for all before going on.
/// `elapsed`: seconds of the run before. Collective over at.team, the world. Stopped: a signal came to a team, and both
/// have saved what they trained.
TrainedAtOnce train_at_once(const ConcurrentStage& what, Learner& coarse, const Workplace& at, double elapsed);

}  // namespace mrmf
