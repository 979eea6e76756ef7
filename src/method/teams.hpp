// Who trains what in a fusion stage whose two models are trained at once (paper 3.4): the ranks are cut into a coarse
// team, the first ones, and a dense team, the others.
#pragma once

#include <optional>
#include <string>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

struct TeamSizes {
  int dense = 0, coarse = 0;
  int ranks() const { return dense + coarse; }
  bool operator==(const TeamSizes&) const = default;
};

/// As method.split says: none where it is to be measured. ConfigError for a world of one rank, and where its ranks
/// cannot be shared out in just this proportion.
std::optional<TeamSizes> given_teams(const MethodConfig& method, int ranks);

/// In the proportion of the seconds that each model would take on all ranks, in whole ranks, at least one each.
TeamSizes proportional_teams(double dense_seconds, double coarse_seconds, int ranks);

/// A team's step from where the other team joins it: its mini-batch, shared out among all `ranks`, rounded up.
TrainStep joined_step(TrainStep step, int team, int ranks);

/// ConfigError where a team, or all ranks once one has joined the other, could not train its model on this many
/// samples: more ranks than samples, shards that are no multiple of its ranks, ...
void require_trainable(const Config& config, const Stage& stage, const TeamSizes& teams, Index samples);

/// The teams of a stage: as given; as an earlier start of this run measured them; else by a timed epoch of each model
/// on all ranks, of throwaway models (the report tells). The epoch's seconds times the most epochs that the model may
/// be trained for are its share. Collective over at.team, the world.
TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const Workplace& at);

}  // namespace mrmf
