// Teams for a fusion stage whose coarse and dense model are trained at once (paper 3.4). The first ranks are the coarse
// team, the others the dense team.
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

/// The teams of method.team_shares; none if they are to be measured. ConfigError for a world of one rank, and when its
/// ranks cannot be shared in exactly this proportion.
std::optional<TeamSizes> given_teams(const MethodConfig& method, int ranks);

/// Teams in proportion to the seconds that each model would take on all ranks; whole ranks, at least one each.
TeamSizes proportional_teams(double dense_seconds, double coarse_seconds, int ranks);

/// ConfigError when a team could not train its model on this many samples: more ranks than samples, a number of shards
/// that is not a multiple of its ranks, a batch norm over a single value, ...
void require_trainable(const Config& config, const Plan& plan, const Stage& stage, const TeamSizes& teams,
                       const DatasetShape& shape);

/// The teams of a stage: as given, or as measured by an earlier start of this run. Otherwise times an epoch of a
/// throwaway model of each kind on all ranks (the log says so). A model's share is the epoch's seconds times its
/// largest number of epochs. Collective over ctx.team, the world.
TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const RunContext& ctx);

/// A run's measurements for cutting its ranks into teams, kept in its folder. A continued run must cut them as before,
/// and one that was stopped while measuring need not measure again what it knows.
struct MeasuredTeams {
  std::map<int, TeamSizes> sizes;                  ///< by stage
  std::map<std::pair<int, Role>, double> seconds;  ///< seconds of an epoch on all ranks, by stage and role
};

/// Reads the measurements in the run's folder; nothing if there are none. Seconds of another configuration or number of
/// ranks do not count. DataError when the file is not ours. Collective over the world.
MeasuredTeams read_measured_teams(const Config& config, Comm& world);
/// A stage's measured teams, if known. ConfigError when they were measured on another number of ranks.
std::optional<TeamSizes> measured_sizes(const MeasuredTeams& measured, int stage, const RunConfig& run, int ranks);
/// Collective over the world.
void write_measured_teams(const MeasuredTeams& measured, const Config& config, Comm& world);

/// Forgets all measurements, for a run that begins anew or is done. The root acts.
void forget_teams(const RunConfig& run, const Comm& world);
/// The same, but only for measurements with another configuration or on other ranks. For a run that was stopped before
/// it had trained anything.
void forget_teams_of_others(const Config& config, const Comm& world);

struct TrainedAtOnce {
  ModelState dense;
  std::array<PhaseRecord, 2> records;  ///< coarse, dense
  double elapsed = 0;                  ///< seconds of the run until the later team arrived
};

/// Trains `coarse` on the coarse team and a new dense model on the other. The team that is ready first waits for the
/// other as long as necessary, and its wait goes into its record. Then two broadcasts over all ranks hand out what the
/// fusion needs: the coarse model's bottom, from the first rank of its team, and the dense model's top. Afterwards all
/// ranks are ready to fuse, but ctx.data is still a team's: load it for all before continuing. `elapsed` is the seconds
/// of the run before. Collective over ctx.team, the world. Throws Stopped when a signal came to a team and both have
/// saved what they trained.
TrainedAtOnce train_at_once(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage,
                            const TeamSizes& teams, ModelState& coarse, double elapsed);

}  // namespace mrmf
