#include "src/method/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "kernels/errors.hpp"
#include "src/data/data.hpp"
#include "src/data/normalise.hpp"
#include "src/method/fusion.hpp"
#include "src/method/resolved_run.hpp"
#include "src/method/teams.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/run_folder.hpp"
#include "src/run/start_model.hpp"
#include "src/training/momenta.hpp"
#include "src/training/run_rules.hpp"
#include "src/training/sample_grid.hpp"
#include "src/training/worker_sums.hpp"

namespace mrmf {
namespace {

// The ranks of a group that cut samples otherwise would wait for each other.
void require_same_grids(const RunConfig& run, Comm& world) {
  std::string text;
  for (const Extent& grid : run.grid) text += (text.empty() ? "" : ", ") + Grid{grid}.text();
  if (world.all_equal(std::hash<std::string>{}(text))) return;
  throw ConfigError("run.grid is not the same on all ranks: rank " + std::to_string(world.rank()) + " has " + text +
                    "; start all ranks with one configuration and the same --set");
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

// More epochs continue from the end of those that there are. The same on every rank.
void require_end(const TrainRun& train, const std::string& run, const Checkpoints& checkpoints) {
  std::error_code none;
  if (train.more_epochs && !checkpoints.found() && std::filesystem::exists(run + "/result.json", none))
    throw ConfigError(run +
                      ": there is no checkpoint of the run's end (checkpoints/step-<n>.h5), which earlier versions did "
                      "not keep; begin a new run with model.start = \"" +
                      run + "\"");
}

// The layers of the other model fit.
void check_start_layers(const Plan& plan, const Config& config, const DatasetShape& shape, Comm& world) {
  if (config.model.start.empty()) return;
  const auto backend = make_reference_backend();
  const Network first(*backend, network_settings(config, plan, shape.sample, plan.resolutions().front()));
  match_start_layers(config, first, world);
}

// What a grid does not go with.
void require_grids(const Plan& plan, const Config& config, const Backend& backend) {
  if (!plan.shares_samples()) return;
  const auto refuse = [](const std::string& what, const std::string& advice) {
    throw ConfigError("run.grid does not go with " + what + "; " + advice);
  };
  if (shard_by_shard(config, backend.synchronous()))
    refuse("run.deterministic and data.shards on the CPU, where every shard is computed by itself",
           "remove one of them");
}

// What boxes of samples do not go with.
void require_patches(const Config& config, const Backend& backend) {
  if (!config.data.patch.any()) return;
  if (shard_by_shard(config, backend.synchronous()))
    throw ConfigError(
        "data.patch does not go with run.deterministic and data.shards on the CPU, where every shard is "
        "computed by itself; remove one of them");
}

}  // namespace

void check_launch(const RunConfig& run, Comm& world) {
  require_ranks(run, world.size());
  require_same_grids(run, world);
}

void check_agreement(const Config& config, const DatasetShape& shape, Comm& world) {
  if (!world.all_equal(std::hash<std::string>{}(to_toml(config))))
    throw FaultError("the ranks read different configurations; is the file the same on every node?");
  if (!world.all_equal(static_cast<std::uint64_t>(shape.samples)))
    throw FaultError("the ranks see different data sets; is the file system the same on every node?");
}

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
  require_averaged_tensors(config.training.sums.momenta, networks.back());
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    require_fusible(networks[s], networks[s + 1], plan.stages[s].fuse);
}

void check_batches(const Plan& plan, const Config& config, const DatasetShape& shape, int ranks) {
  const Index samples = shape.samples;
  const auto require = [&](const Phase& phase) {
    require_in_place(config, ranks / Grid{phase.grid}.ranks(), config.run.device != Device::cuda);
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

void check_folder(const RunFolder& folder, const std::string& config_file, const std::string& asked) {
  if (folder.is_own_config(config_file) && asked != to_toml(read_config(config_file, {})))
    throw ConfigError(config_file +
                      ": is the configuration that run.folder keeps, and --set would replace it; copy "
                      "it to another place and start from there, or leave --set out");
}

void check_start(const ResolvedRun& run, const TrainRun& train, const Checkpoints& checkpoints, Comm& world) {
  require_end(train, run.config.run.folder, checkpoints);
  if (!checkpoints.found()) check_start_layers(run.plan, run.config, run.shape, world);
}

void check_backend(const ResolvedRun& run, const Backend& backend, int ranks) {
  const bool on_cpu = backend.synchronous();
  require_grids(run.plan, run.config, backend);
  require_patches(run.config, backend);
  require_micro_batches(run.config, on_cpu);
  if (!on_cpu && !run.config.training.parts.terms.empty())
    throw ConfigError(
        "training.terms: a network of several parts trains on the CPU, and this machine has a GPU; set run.device = "
        "\"cpu\"");
  require_ways(run.plan, run.config, ranks, on_cpu);
}

void require_ways(const Plan& plan, const Config& config, int ranks, bool on_cpu) {
  const bool shards = shard_by_shard(config, on_cpu);
  for (const Phase& phase : plan.phases()) {
    require_communication(phase.sums, shards ? config.data.shards : ranks, on_cpu);
    if (phase.sums.communication != Communication::automatic && !phase.sums.adds_plainly() && plan.shares_samples())
      throw ConfigError(
          "run.grid goes with training.communication = \"fp32\" and shared momenta alone; use these, or no grid");
  }
}

void check_validation(const Config& config, Data& data, Comm& world) {
  DatasetShape validation = data.validation().shape;
  validation.block.reset();
  require_logarithms(config.data, config.data.validation, validation, world);
}

}  // namespace mrmf
