// A fusion stage whose coarse and dense model are trained at once, by two teams (paper 3.4): the ranks are cut into a
// coarse team, the first ones, and a dense team, the others.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/training/model_state.hpp"
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

/// ConfigError where a team could not train its model on this many samples: more ranks than samples, shards that are no
/// multiple of its ranks, ...
void require_trainable(const Config& config, const Stage& stage, const TeamSizes& teams, Index samples);

/// The teams of a stage: as given; as an earlier start of this run measured them; else by a timed epoch of each model
/// on all ranks, of throwaway models (the report tells). The epoch's seconds times the most epochs that the model may
/// be trained for are its share. Collective over ctx.team, the world.
TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const RunContext& ctx);

/// What a run has measured to cut its ranks into teams. It is kept in the run's folder: a run that goes on must cut
/// them as before, and one that was stopped on the way need not measure again what it knows.
struct MeasuredTeams {
  std::map<int, TeamSizes> sizes;                  ///< of a stage
  std::map<std::pair<int, Role>, double> seconds;  ///< of an epoch on all ranks, of a stage's model of this role
};

/// What the run's folder has, nothing where it has none; seconds of another configuration, or of another number of
/// ranks, do not count. DataError: the file is none of ours. Collective over the world.
MeasuredTeams read_measured_teams(const Config& config, Comm& world);
/// Those of a stage, if they are known. ConfigError: they were measured on another number of ranks than this.
std::optional<TeamSizes> measured_sizes(const MeasuredTeams& measured, int stage, const RunConfig& run, int ranks);
/// Collective over the world.
void write_measured_teams(const MeasuredTeams& measured, const Config& config, Comm& world);

/// Forgets what was measured: for a run that begins anew, or is done. The root acts.
void forget_teams(const RunConfig& run, const Comm& world);
/// The same where it was measured with another configuration, or on other ranks: for a run that was stopped before it
/// had trained anything.
void forget_teams_of_others(const Config& config, const Comm& world);

struct TrainedAtOnce {
  ModelState dense;
  std::array<PhaseRecord, 2> records;  ///< coarse, dense
  double elapsed = 0;                  ///< seconds of the run until the later team was there
};

/// Trains `coarse` on the coarse team and a new dense model on the other. The team that is ready first waits for the
/// other, for however long that takes, and its wait goes into its record. Then two broadcasts over all ranks hand round
/// what the fusion needs: the coarse model's bottom, from the first rank of its team, and the dense model's top.
/// Afterwards all ranks are ready to fuse them, and ctx.data is a team's: load it for all before going on.
/// `elapsed`: seconds of the run before. Collective over ctx.team, the world. Stopped: a signal came to a team, and
/// both have saved what they trained.
TrainedAtOnce train_at_once(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage,
                            const TeamSizes& teams, ModelState& coarse, double elapsed);

}  // namespace mrmf
