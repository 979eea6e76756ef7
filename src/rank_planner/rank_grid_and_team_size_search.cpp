// The search of the grid of ranks and the batches, and of the sizes of concurrent teams.
#include "src/rank_planner/rank_planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/training/batches.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {

std::vector<Grid> grids_of(int ranks, int axes, int most) {
  std::vector<Grid> grids;
  const auto along = [&](int axis, Index left) { return axis >= 3 - axes ? left : Index{1}; };
  const Index all = std::min(ranks, most);
  for (Index a = along(0, all); a >= 1; --a)
    for (Index b = along(1, all / a); b >= 1; --b)
      for (Index c = along(2, all / (a * b)); c >= 1; --c)
        if (ranks % (a * b * c) == 0) grids.push_back({{a, b, c}});
  std::ranges::stable_sort(grids, {}, &Grid::ranks);
  return grids;
}

namespace {

/// Collects the reasons, each once, with an example of a grid.
class Refusals {
 public:
  void add(const Grid& grid, int axes, const std::string& kind, const std::string& reason) {
    auto [entry, first] = seen_.try_emplace(kind, Entry{});
    if (first) entry->second.reason = fmt::format("{}: {}", to_string(grid.blocks, axes), reason);
    ++entry->second.count;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [kind, entry] : seen_)
      lines.push_back(entry.reason +
                      (entry.count > 1 ? fmt::format(" (and {} more grids so)", entry.count - 1) : std::string()));
    return lines;
  }

 private:
  struct Entry {
    std::string reason;
    int count = 0;
  };
  std::map<std::string, Entry> seen_;
};

// The mini-batch of a phase over all ranks.
Index mini_batch_of(const Plan& plan, const Phase& phase, const SearchSettings& settings) {
  const Index groups = std::max<Index>(1, settings.ranks.ranks / Grid{phase.grid}.ranks());
  const Index configured = phase.batch * groups;
  if (settings.mini_batch == 0) return configured;
  return std::max<Index>(1, settings.mini_batch * phase.batch / plan.last.batch);
}

// A team's ranks are searched by search_team_sizes().
bool trains_in_a_team(const Plan& plan, const Phase& phase) {
  return std::ranges::any_of(plan.stages, [&](const Stage& stage) {
    return stage.at_once && (stage.coarse.number == phase.number || stage.dense->number == phase.number);
  });
}

class Search {
 public:
  Search(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
         const SearchSettings& settings)
      : backend_(backend), costs_(costs), config_(config), plan_(plan), settings_(settings) {}

  PhaseChoices of(const Phase& phase) {
    PhaseChoices choices{phase, mini_batch_of(plan_, phase, settings_), {}, {}};
    Refusals refusals;
    const int axes = settings_.sample.axes;
    for (const Grid& grid : grids_of(settings_.ranks.ranks, axes)) add(choices, refusals, grid, axes);
    choices.refused = refusals.lines();
    if (choices.fitting.empty())
      throw ConfigError(fmt::format("{}: no grid of {} ranks fits: {}", phase_text(phase), settings_.ranks.ranks,
                                    fmt::join(choices.refused, "; ")));
    std::ranges::stable_sort(choices.fitting, {}, &GridChoice::seconds);
    return choices;
  }

 private:
  void add(PhaseChoices& choices, Refusals& refusals, const Grid& grid, int axes) {
    const Index groups = settings_.ranks.ranks / grid.ranks();
    if (grid.ranks() > 1)
      if (const char* reason = refused(choices.phase); reason != nullptr)
        return refusals.add(grid, axes, "settings", reason);
    if (choices.mini_batch % groups != 0 || choices.mini_batch < groups)
      return refusals.add(grid, axes, "batch",
                          fmt::format("{} groups of ranks cannot share a step's {} samples evenly; change "
                                      "training.batch, or give --batch",
                                      groups, choices.mini_batch));
    const GridChoice choice{grid, choices.mini_batch / groups, {}};
    const auto& known = predictions_.find(key(choices.phase, choice));
    GridChoice made = choice;
    try {
      if (!trains_in_a_team(plan_, choices.phase))
        require_batch(config_, plan_, settings_, choices.phase, choice.batch, static_cast<int>(groups));
      if (choices.phase.last())
        require_probes(plan_, static_cast<Index>(settings_.samples), choice.batch, static_cast<int>(groups));
      made.prediction = known != predictions_.end() ? known->second : predicted(choices.phase, choice);
    } catch (const ConfigError& error) {
      return refusals.add(grid, axes, std::string(error.what()).substr(0, 12), error.what());
    }
    predictions_[key(choices.phase, choice)] = made.prediction;
    if (const std::string reason = memory_refusal(made.prediction, settings_, costs_); !reason.empty())
      return refusals.add(grid, axes, "memory", reason);
    choices.fitting.push_back(std::move(made));
  }

  // What run.grid does not go with (src/config/check.cpp; src/method/train_run_and_cross_validation.cpp on shards).
  const char* refused(const Phase& phase) const {
    if (shard_by_shard(config_, settings_.on_cpu)) return "run.deterministic and data.shards go without run.grid";
    if (config_.method.teams == TeamMode::concurrent) return "method.teams = \"concurrent\" goes without run.grid";
    if (!config_.training.global_batch_norm) return "training.batch_norm = \"local\" goes without run.grid";
    if (phase.sums.communication != Communication::automatic && !phase.sums.adds_plainly())
      return "training.communication other than fp32, and momenta of each rank's own, go without run.grid";
    return nullptr;
  }

  Prediction predicted(const Phase& phase, const GridChoice& choice) {
    Workload work = workload_of(config_, plan_, settings_, phase);
    work.grid = choice.grid, work.batch = choice.batch;
    return predict(backend_, costs_, work);
  }

  Backend& backend_;
  const CostModel& costs_;
  const Config& config_;
  const Plan& plan_;
  SearchSettings settings_;
  // Phases share resolutions, and mostly ways of adding.
  using Known = std::tuple<Extent, Extent, Index, Communication, MomentaRule>;
  static Known key(const Phase& phase, const GridChoice& choice) {
    return {phase.resolution, choice.grid.blocks, choice.batch, phase.sums.communication, phase.sums.momenta.rule};
  }
  std::map<Known, Prediction> predictions_;
};

/// What a resolution's phases take with each grid that fits all of them.
struct ResolutionCosts {
  Extent resolution;
  std::vector<OneGrid> grids;
};

std::vector<ResolutionCosts> costs_by_resolution(const std::vector<PhaseChoices>& phases) {
  std::vector<ResolutionCosts> all;
  std::vector<PhaseChoices> same;
  for (std::size_t i = 0; i < phases.size(); ++i) {  // phases of one resolution follow each other
    same.push_back(phases[i]);
    if (i + 1 < phases.size() && phases[i + 1].phase.resolution == phases[i].phase.resolution) continue;
    all.push_back({phases[i].phase.resolution, one_grid(same)});
    same.clear();
  }
  return all;
}

}  // namespace

Workload workload_of(const Config& config, const Plan& plan, const SearchSettings& settings, const Phase& phase) {
  Workload work{.network = network_settings(config, plan, settings.sample, phase.resolution),
                .grid = {phase.grid},
                .ranks = settings.ranks,
                .batch = phase.batch,
                .samples = settings.samples,
                .validated = settings.validated,
                .sample_bytes = settings.sample_bytes,
                .streamed = settings.streamed,
                .reproducible_sums = config.run.deterministic,
                .training = config.training};
  work.training.optimizer = phase.optimizer;
  work.training.sums = phase.sums;
  return work;
}

void require_batch(const Config& config, const Plan& plan, const SearchSettings& settings, Phase phase, Index batch,
                   int groups) {
  phase.batch = static_cast<int>(batch);
  require_rows(config, plan, phase, {settings.sample, static_cast<Index>(settings.samples), groups, settings.on_cpu});
}

std::string memory_refusal(const Prediction& prediction, const SearchSettings& settings, const CostModel& costs) {
  const auto needed = static_cast<double>(prediction.memory.all());
  const double there = settings.memory > 0 ? settings.memory : costs.memory();
  if (there <= 0 || needed <= there) return {};
  return fmt::format("a rank would need {:.3g} GB and may use {:.3g} GB", 1e-9 * needed, 1e-9 * there);
}

std::vector<PhaseChoices> search_grids(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
                                       const SearchSettings& settings) {
  require_micro_batches(config, settings.on_cpu);
  Search search(backend, costs, config, plan, settings);
  std::vector<PhaseChoices> phases;
  for (const Phase& phase : plan.phases()) phases.push_back(search.of(phase));
  return phases;
}

std::vector<OneGrid> one_grid(const std::vector<PhaseChoices>& phases) {
  std::map<Extent, std::pair<double, std::size_t>> sums;
  for (const PhaseChoices& phase : phases)
    for (const GridChoice& choice : phase.fitting) {
      auto& [seconds, count] = sums[choice.grid.blocks];
      seconds += phase.phase.stop.epochs * choice.seconds();
      ++count;
    }
  std::vector<OneGrid> grids;
  for (const auto& [blocks, sum] : sums)
    if (sum.second == phases.size()) grids.push_back({{blocks}, sum.first});
  std::ranges::sort(grids, {}, &OneGrid::seconds);
  return grids;
}

std::optional<GridPerResolution> grid_per_resolution(const Plan& plan, const std::vector<PhaseChoices>& phases,
                                                     double reading) {
  const std::vector<ResolutionCosts> steps = costs_by_resolution(phases);
  struct Path {
    double seconds = 0;
    std::vector<Grid> grids;
    int changes = 0;
  };
  std::vector<Path> paths(1);
  for (const ResolutionCosts& step : steps) {
    std::vector<Path> longer;
    for (const OneGrid& next : step.grids) {
      Path best;
      for (const Path& path : paths) {
        const bool change = !path.grids.empty() && !(path.grids.back() == next.grid);
        Path way{path.seconds + next.seconds + (change ? reading : 0), path.grids, path.changes + (change ? 1 : 0)};
        way.grids.push_back(next.grid);
        if (best.grids.empty() || way.seconds < best.seconds) best = std::move(way);
      }
      longer.push_back(std::move(best));
    }
    paths = std::move(longer);
  }
  if (paths.empty()) return {};
  const Path& best = *std::ranges::min_element(paths, {}, &Path::seconds);
  GridPerResolution found{{}, best.seconds, best.changes * reading};
  for (const Extent& resolution : plan.resolutions()) {
    const auto at = std::ranges::find(steps, resolution, &ResolutionCosts::resolution);
    // Where nothing is trained, the fewest ranks do.
    found.grids.push_back(at == steps.end() ? Grid{} : best.grids[static_cast<std::size_t>(at - steps.begin())]);
  }
  return found;
}

namespace {

/// The phases of one role, and where their settings are.
struct RolePhases {
  Role role;
  RoleSettings MethodConfig::*settings;
  RoleSettings StageOverride::*of_stage;  // none: the role has one phase
  const char* name;
};
constexpr RolePhases kRoles[]{{Role::coarse, &MethodConfig::coarse, &StageOverride::coarse, "coarse"},
                              {Role::dense, &MethodConfig::dense, &StageOverride::dense, "dense"},
                              {Role::finetune, &MethodConfig::finetune, nullptr, "finetune"}};

bool is_of(const Phase& phase, const RolePhases& role) {
  return phase.role == role.role || (phase.role == Role::baseline && role.role == Role::finetune);
}

// The role's batch where its phases have one, else the stages'.
void set_role(Config& config, const RolePhases& role, const std::vector<Phase>& phases,
              const std::vector<Index>& batches) {
  std::vector<std::pair<int, int>> wanted;  // stage, batch
  for (std::size_t i = 0; i < phases.size(); ++i)
    if (is_of(phases[i], role)) wanted.emplace_back(phases[i].stage, static_cast<int>(batches[i]));
  if (wanted.empty()) return;
  MethodConfig& method = config.method;
  std::optional<int>& own = (method.*role.settings).batch;
  own.reset();
  if (role.of_stage != nullptr)
    for (StageOverride& stage : method.stages) (stage.*role.of_stage).batch.reset();
  const bool same = std::ranges::all_of(wanted, [&](const auto& w) { return w.second == wanted.front().second; });
  if (same) {
    if (wanted.front().second != config.training.batch) own = wanted.front().second;
    return;
  }
  for (const auto& [stage, batch] : wanted) {
    if (method.stages.size() < static_cast<std::size_t>(stage)) method.stages.resize(static_cast<std::size_t>(stage));
    (method.stages[static_cast<std::size_t>(stage) - 1].*role.of_stage).batch = batch;
  }
}

const GridChoice& choice_of(const PhaseChoices& phase, const Grid& grid) {
  const auto found = std::ranges::find(phase.fitting, grid, &GridChoice::grid);
  MRMF_CHECK(found != phase.fitting.end(), "a grid is chosen that fits the phase");
  return *found;
}

std::string grid_text(const Extent& blocks, int axes) {
  return fmt::format("[{}]", fmt::join(blocks.end() - axes, blocks.end(), ", "));
}

}  // namespace

ProposedRun proposed_run(const Plan& plan, const std::vector<PhaseChoices>& phases, const std::vector<Grid>& grids) {
  const std::vector<Extent> resolutions = plan.resolutions();
  ProposedRun run{grids, {}, {}};
  for (const PhaseChoices& phase : phases) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(resolutions, phase.phase.resolution) - resolutions.begin());
    run.batches.push_back(choice_of(phase, grids.size() == 1 ? grids.front() : grids.at(at)).batch);
  }
  return run;
}

Config proposed_config(const Config& config, const ProposedRun& found) {
  Config planned = config;
  const std::vector<Phase> phases = make_plan(config).phases();
  MRMF_CHECK(found.batches.size() == phases.size(), "every phase has a batch");
  planned.training.batch = static_cast<int>(found.batches.back());
  for (const RolePhases& role : kRoles) set_role(planned, role, phases, found.batches);
  planned.run.grid.clear();
  for (const Grid& grid : found.grids) planned.run.grid.push_back(grid.blocks);
  if (!found.team_shares.empty()) planned.method.team_shares = found.team_shares;
  if (planned.run.ranks > 0) planned.run.ranks = found.ranks;
  return planned;
}

std::vector<std::string> proposed_keys(const Config& planned, const ProposedRun& found, int axes) {
  std::vector<std::string> grids, keys;
  for (const Extent& grid : planned.run.grid) grids.push_back(grid_text(grid, axes));
  keys.push_back(grids.size() == 1 ? "run.grid = " + grids.front()
                                   : fmt::format("run.grid = [{}]", fmt::join(grids, ", ")));
  if (!found.team_shares.empty())
    keys.push_back(fmt::format("method.team_shares = [{}]", fmt::join(found.team_shares, ", ")));
  keys.push_back(fmt::format("training.batch = {}", planned.training.batch));
  if (planned.run.ranks > 0) keys.push_back(fmt::format("run.ranks = {}", planned.run.ranks));
  for (const RolePhases& role : kRoles) {
    if (const auto batch = (planned.method.*role.settings).batch)
      keys.push_back(fmt::format("method.{}.batch = {}", role.name, *batch));
    if (role.of_stage == nullptr) continue;
    for (std::size_t i = 0; i < planned.method.stages.size(); ++i)
      if (const auto batch = (planned.method.stages[i].*role.of_stage).batch)
        keys.push_back(fmt::format("method.stages: {}.batch of stage {} = {}", role.name, i + 1, *batch));
  }
  return keys;
}

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
