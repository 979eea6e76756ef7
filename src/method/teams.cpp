#include "src/method/teams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/method/measured_teams.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {
namespace {

// Seconds that an epoch takes on all ranks. Averaging the data is not an epoch's work: I/O is left out.
double epoch_seconds(const Config& config, const Plan& plan, TrainStep step, const Workplace& at) {
  RunReport silent;
  const Workplace apart = at.apart(silent);
  step.stop = {};
  step.stop.epochs = 1;
  Trainer trainer(apart, config.training);
  trainer.rehearse(config, plan, step);
  Learner throwaway = make_learner(plan, config, apart, step.resolution, step.seed);
  const StageRecord record = trainer.train(throwaway, step).record;
  return record.split.compute.mean + record.split.communication.mean;
}

TeamSizes measure(const Config& config, const Plan& plan, const Stage& stage, const Workplace& at,
                  MeasuredTeams& kept) try {
  const Timer timer;
  at.data.load(at.team);
  const auto seconds_of = [&](const TrainStep& step) {
    if (const std::optional<double> earlier = kept.find_seconds(step.stage, step.role)) return *earlier;
    at.report.log(
        fmt::format("stage {}: measuring an epoch of the {} model on all ranks", step.stage, to_string(step.role)));
    const double seconds = epoch_seconds(config, plan, step, at);
    kept.keep_seconds(step.stage, step.role, seconds);
    return seconds;
  };
  const double dense = seconds_of(*stage.dense), coarse = seconds_of(stage.coarse);
  const int dense_epochs = stage.dense->stop.epochs, coarse_epochs = stage.coarse.stop.epochs;
  const TeamSizes teams = proportional_teams(dense * dense_epochs, coarse * coarse_epochs, at.team.size());
  at.report.log(
      fmt::format("stage {}: measured in {:.2f} s: an epoch on all ranks takes {:.3f} s dense (at most {} epochs) and "
                  "{:.3f} s coarse "
                  "(at most {})",
                  stage.fuse.stage, timer.seconds(), dense, dense_epochs, coarse, coarse_epochs));
  return teams;
} catch (const Stopped& stopped) {
  at.report.log(
      fmt::format("stopped on {} while the teams of stage {} were measured; run the same command again to continue",
                  signal_name(stopped.signal), stage.fuse.stage));
  throw;
}

}  // namespace

std::optional<TeamSizes> given_teams(const MethodConfig& method, int ranks) {
  if (ranks < 2)
    throw ConfigError(
        "method.teams = \"concurrent\" needs a rank for each of two teams, and this run has 1; start it with mpirun -n "
        "2 "
        "or more, or set method.teams = \"sequential\"");
  if (method.split.empty()) return {};
  const int dense = method.split[0], coarse = method.split[1], divisor = std::gcd(dense, coarse);
  const int parts = (dense + coarse) / divisor;
  if (ranks % parts != 0)
    throw ConfigError(
        fmt::format("method.split = [{}, {}] does not fit {} rank{}; use {} or a multiple, other shares, or leave "
                    "method.split out to have them measured",
                    dense, coarse, ranks, ranks == 1 ? "" : "s", parts));
  return TeamSizes{dense / divisor * (ranks / parts), coarse / divisor * (ranks / parts)};
}

TeamSizes proportional_teams(double dense_seconds, double coarse_seconds, int ranks) {
  const double share = dense_seconds / (dense_seconds + coarse_seconds);
  const int dense = std::clamp(static_cast<int>(std::lround(share * ranks)), 1, ranks - 1);
  return {dense, ranks - dense};
}

TrainStep joined_step(TrainStep step, int team, int ranks) {
  step.batch = (step.batch * team + ranks - 1) / ranks;
  return step;
}

void require_trainable(const Config& config, const Stage& stage, const TeamSizes& teams, Index samples) {
  const auto require = [&](const TrainStep& step, int ranks, const std::string& who) {
    try {
      require_batches(config.data, samples, step, ranks);
    } catch (const ConfigError& error) {
      throw ConfigError(who + error.what());
    }
  };
  const auto require_team = [&](const TrainStep& step, int ranks) {
    const std::string role = to_string(step.role);
    require(step, ranks,
            fmt::format("the {} team of stage {}, {} of {} ranks: ", role, step.stage, ranks, teams.ranks()));
    if (config.method.join)
      require(joined_step(step, ranks, teams.ranks()), teams.ranks(),
              fmt::format("the {} team of stage {}, joined by the other (method.join): ", role, step.stage));
  };
  require_team(stage.coarse, teams.coarse);
  require_team(*stage.dense, teams.dense);
}

TeamSizes choose_teams(const Config& config, const Plan& plan, const Stage& stage, const Workplace& at) {
  std::optional<TeamSizes> teams = given_teams(config.method, at.team.size());
  if (!teams) {
    MeasuredTeams earlier(config, at.team, at.saving != nullptr);
    teams = earlier.find(stage.fuse.stage);
    if (!teams) {
      teams = measure(config, plan, stage, at, earlier);
      earlier.keep(stage.fuse.stage, *teams);
    }
  }
  require_trainable(config, stage, *teams, at.data.shape().samples);
  at.report.log(fmt::format("stage {}: a coarse team of {} rank{} and a dense team of {} train at once",
                            stage.fuse.stage, teams->coarse, teams->coarse == 1 ? "" : "s", teams->dense));
  return *teams;
}

}  // namespace mrmf
