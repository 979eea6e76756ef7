#include "src/rank_planner/rank_grid_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/errors.hpp"

namespace mrmf {
namespace {

class TeamSizeSearch {
 public:
  TeamSizeSearch(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
                 const SearchSettings& settings, const std::vector<PhaseChoices>& phases)
      : backend_(backend), costs_(costs), config_(config), plan_(plan), settings_(settings), phases_(phases) {}

  std::optional<TeamChoice> of(int dense) {
    TeamChoice split{dense, settings_.ranks.ranks - dense, {}};
    for (const Stage& stage : plan_.stages) {
      if (!stage.at_once) continue;
      const std::optional<double> fine = seconds_of(*stage.dense, split.dense),
                                  rough = seconds_of(stage.coarse, split.coarse);
      if (!fine || !rough) return {};
      split.stages.push_back({stage.fuse.stage, *fine, *rough});
    }
    return split;
  }

  /// Why the first split that does not fit does not; empty where all fit.
  const std::string& reason() const { return reason_; }

 private:
  // Seconds of all its epochs; none where the team cannot train it. The other team is busy on the same nodes.
  std::optional<double> seconds_of(const Phase& phase, int ranks) {
    const auto [known, unknown] = seconds_.try_emplace({phase.number, ranks});
    if (!unknown) return known->second;
    const Index batch = batch_of(phase);
    try {
      require_batch(config_, plan_, settings_, phase, batch, ranks);
    } catch (const ConfigError& error) {
      note(phase, ranks, error.what());
      return known->second;
    }
    Workload work = workload_of(config_, plan_, settings_, phase);
    work.ranks.ranks = ranks;
    work.batch = batch;
    const Prediction prediction = predict(backend_, costs_, work);
    if (const std::string refusal = memory_refusal(prediction, settings_, costs_); !refusal.empty()) {
      note(phase, ranks, refusal);
      return known->second;
    }
    return known->second = phase.stop.epochs * prediction.epoch.all();
  }

  // The first refusal is kept.
  void note(const Phase& phase, int ranks, const std::string& refusal) {
    if (reason_.empty())
      reason_ = fmt::format("{} on {} rank{}: {}", phase_text(phase), ranks, ranks == 1 ? "" : "s", refusal);
  }

  Index batch_of(const Phase& phase) const {
    const auto found =
        std::ranges::find_if(phases_, [&](const PhaseChoices& p) { return p.phase.number == phase.number; });
    MRMF_CHECK(found != phases_.end(), "every phase of the plan was searched");
    return found->fitting.front().batch;
  }

  Backend& backend_;
  const CostModel& costs_;
  const Config& config_;
  const Plan& plan_;
  const SearchSettings& settings_;
  const std::vector<PhaseChoices>& phases_;
  std::map<std::pair<int, int>, std::optional<double>> seconds_;  // by phase and ranks
  std::string reason_;
};

}  // namespace

double TeamChoice::seconds() const {
  double all = 0;
  for (const StageTeams& stage : stages) all += stage.seconds();
  return all;
}

std::vector<TeamChoice> search_team_sizes(Backend& backend, const CostModel& costs, const Config& config,
                                          const Plan& plan, const SearchSettings& settings,
                                          const std::vector<PhaseChoices>& phases) {
  if (std::ranges::none_of(plan.stages, &Stage::at_once)) return {};
  const int ranks = settings.ranks.ranks;
  if (ranks < 2)
    throw ConfigError("--ranks 1: method.teams = \"concurrent\" needs a rank for each of two teams; give 2 or more");
  TeamSizeSearch splits(backend, costs, config, plan, settings, phases);
  std::vector<TeamChoice> found;
  for (int dense = 1; dense < ranks; ++dense)
    if (std::optional<TeamChoice> split = splits.of(dense)) found.push_back(*std::move(split));
  if (found.empty())
    throw ConfigError(fmt::format("no split of {} ranks into two teams fits: {}", ranks, splits.reason()));
  std::ranges::stable_sort(found, {}, &TeamChoice::seconds);
  return found;
}

}  // namespace mrmf
