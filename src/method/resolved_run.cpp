#include "src/method/resolved_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "kernels/check.hpp"
#include "layers/geometry.hpp"
#include "src/data/augment.hpp"
#include "src/data/data.hpp"
#include "src/data/normalise.hpp"
#include "src/method/auto_schedule.hpp"
#include "src/method/fusion.hpp"
#include "src/method/teams.hpp"
#include "src/plan/labels.hpp"
#include "src/training/run_rules.hpp"
#include "src/training/sample_grid.hpp"

namespace mrmf {
namespace {

// Ranks with different configurations or data would hang later; this reports it at once.
void require_agreement(const Config& config, const DatasetShape& shape, Comm& world) {
  if (!world.agree(std::hash<std::string>{}(to_toml(config))))
    throw FaultError("the ranks read different configurations; is the file the same on every node?");
  if (!world.agree(static_cast<std::uint64_t>(shape.samples)))
    throw FaultError("the ranks see different data sets; is the file system the same on every node?");
}

// Every resolution has a grid that its network's layers can be cut by.
void check_grid(const Plan& plan, const Extent& resolution, const Network& network, int axes) {
  const Grid grid{plan.grid(resolution)};
  if (grid.ranks() == 1) return;
  try {
    Partition(network, grid);
  } catch (const ConfigError& error) {
    if (plan.stages.empty()) throw;
    throw ConfigError(
        fmt::format("resolution {}: {}; each resolution may have a grid of its own, such as run.grid = "
                    "[[1], [2]] for two",
                    resolution_text(resolution, axes), error.what()));
  }
}

// Runs before any data is read, so that an impossible plan costs nothing.
void check_plan(const Plan& plan, const Config& config, const DatasetShape& shape, const Comm& world) {
  const int axes = shape.sample.axes;
  if (config.method.axes != 0 && config.method.axes != axes)
    throw ConfigError(
        fmt::format("method.resolutions has {} factor{} per resolution and the samples ({}) have {} {}; "
                    "give a factor per axis",
                    config.method.axes, config.method.axes == 1 ? "" : "s", to_string(shape.sample), axes,
                    axes == 1 ? "axis" : "axes"));
  for (const Extent& resolution : plan.resolutions())
    require_whole_sample_groups({plan.grid(resolution)}, world.size());
  check_batches(plan, config, shape, world.size());
  const auto backend = make_reference_backend();
  std::vector<Network> networks;
  for (const Extent& resolution : plan.resolutions()) {
    networks.emplace_back(*backend, network_settings(config, plan, shape.sample, resolution));
    check_grid(plan, resolution, networks.back(), axes);
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    require_fusible(networks[s], networks[s + 1], plan.stages[s].fuse);
}

// Writes out what "auto" comes to for these data; why, a line each.
std::vector<std::string> choose_method(Config& config, const DatasetShape& shape, Index validation, Comm& world) {
  const RunSize size{static_cast<double>(shape.samples), static_cast<double>(validation), world.size()};
  AutoSchedule chosen = choose_schedule(config, shape, size, world);
  config = std::move(chosen.config);
  return std::move(chosen.reasons);
}

}  // namespace

void check_batches(const Plan& plan, const Config& config, const DatasetShape& shape, int ranks) {
  const Index samples = shape.samples;
  const auto require = [&](const Phase& phase) {
    require_rows(config, plan, phase,
                 {shape.sample, samples, ranks / Grid{phase.grid}.ranks(), config.run.device != Device::cuda});
  };
  for (const Stage& stage : plan.stages) {
    if (stage.at_once) {
      const std::optional<TeamSizes> teams = given_teams(config.method, ranks);
      if (teams) require_trainable(config, plan, stage, *teams, shape);
      continue;
    }
    require(stage.coarse);
    if (stage.dense) require(*stage.dense);
  }
  require(plan.last);
  require_probes(plan, samples, plan.last.batch, ranks / Grid{plan.last.grid}.ranks());
}

Warnings::~Warnings() { print_warnings(lines_, world_); }

// Collective.
ResolvedRun resolve_run(Config config, Warnings& warnings, Comm& world) {
  const bool automatic = config.method.name == MethodName::automatic;
  if (!automatic) make_plan(config);  // refuses an impossible plan before any file is opened
  if (!automatic) warnings.add(config_warnings(config));
  const DatasetShape shape = inspect_dataset(config.data.train, world);
  require_agreement(config, shape, world);
  DatasetShape validation = inspect_dataset(config.data.validation, {config.data.train, shape}, world);
  require_distinct_rows(config.data, shape, validation, world);
  require_channels(config.data, shape.sample);
  warnings.add(sample_warnings(config, shape.sample));
  // "[1]" suits any data, and so does one size for all axes; from here on each axis has its own number.
  resolve_axes(config.model.layers, shape.sample.axes);
  std::vector<std::string> reasons;
  if (automatic) {
    reasons = choose_method(config, shape, validation.samples, world);
    warnings.add(config_warnings(config));
  }
  if (config.method.axes == 0) config.method.axes = shape.sample.axes;
  Plan plan = make_plan(config);
  check_plan(plan, config, shape, world);
  resolve_labels(config, shape, plan.resolutions());
  require_augmentable(config.data.augment, shape.sample, shape.label, plan.resolutions());
  resolve_normalisation(config, shape, world);
  return {std::move(config), std::move(plan), shape, std::move(reasons), automatic, std::move(validation)};
}

}  // namespace mrmf
