#include "src/planner/proposed_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/check.hpp"

namespace mrmf {
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

}  // namespace mrmf
