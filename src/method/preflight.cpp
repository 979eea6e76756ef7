#include "src/method/train_run.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/data/augmentation.hpp"
#include "src/data/classes.hpp"
#include "src/data/data.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/data/sliding_window_inference.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "src/method/pipeline.hpp"
#include "src/plan/plan.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/model_file.hpp"
#include "src/run/run_folder.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {
namespace {

Index output_channels(const Config& config, const Plan& plan, const DatasetShape& shape) {
  const auto backend = make_reference_backend();
  return Network(*backend, network_settings(config, plan, shape.sample, plan.last.resolution)).output().channels;
}

// Writes out what "auto" comes to for these data; why, a line each.
std::vector<std::string> choose_method(Config& config, const DatasetShape& shape, Index validation, Comm& world) {
  const RunSize size{static_cast<double>(shape.samples), static_cast<double>(validation), world.size()};
  AutoSchedule chosen = choose_schedule(config, shape, size, world);
  config = std::move(chosen.config);
  return std::move(chosen.reasons);
}

// What attributes of both parts say that nothing applies, each line once.
std::vector<std::string> not_applied_warnings(const DatasetShape& train, const DatasetShape& validation) {
  std::vector<std::string> lines = train.not_applied;
  for (const std::string& line : validation.not_applied)
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  return lines;
}

}  // namespace

Warnings::~Warnings() { print_warnings(lines_, world_); }

std::vector<std::string> resolve_from_data(Config& config, const DatasetShape& train,
                                           const std::vector<Extent>& resolutions, Comm& world) {
  resolve_labels(config, train, resolutions);
  resolve_normalisation(config, train, world);
  resolve_units(config.data, train);
  resolve_class_weights(config, train, world);
  return resolve_names(config, output_channels(config, make_plan(config), train), train);
}

// Collective.
ResolvedRun resolve_run(Config config, Warnings& warnings, Comm& world) {
  const bool automatic = config.method.name == MethodName::automatic;
  if (!automatic) make_plan(config);  // refuses an impossible plan before any file is opened
  if (!automatic) warnings.add(config_warnings(config));
  const DatasetShape shape = inspect_dataset(config.data.train, world);
  check_agreement(config, shape, world);
  DatasetShape validation = inspect_dataset(config.data.validation, {config.data.train, shape}, world);
  const std::optional<DatasetShape> test = test_headers(config.data, shape, world);
  require_distinct_rows(config.data, shape, validation, test ? &*test : nullptr, world);
  require_channels(config.data, shape.sample);
  warnings.add(sample_warnings(config, shape.sample));
  warnings.add(not_applied_warnings(shape, validation));
  // "[1]" suits any data, and so does one size for all axes; from here on each axis has its own number.
  resolve_axes(config.model.layers, shape.sample.axes);
  require_patch(config, shape.sample, shape.label);
  std::vector<std::string> reasons;
  if (automatic) {
    reasons = choose_method(config, shape, validation.samples, world);
    warnings.add(config_warnings(config));
  }
  if (config.method.axes == 0) config.method.axes = shape.sample.axes;
  Plan plan = make_plan(config);
  check_plan(plan, config, shape, world);
  require_augmentable(config.data, shape.sample, shape.label, plan.resolutions());
  warnings.add(resolve_from_data(config, shape, plan.resolutions(), world));
  plan = make_plan(config);  // a metric may have been of a class by its name
  return {std::move(config), std::move(plan), shape, std::move(reasons), automatic, std::move(validation)};
}

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
    throw ConfigError(
        run +
        ": there is no checkpoint of the run's end (checkpoints/phase-<n>.h5), which earlier versions did "
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

namespace {

// What every rank of a group does by itself; empty where that is nothing.
std::string repeated_text(const Network& network, const Grid& grid) {
  const std::vector<std::string> whole = grid_layers(Partition(network, grid), network).whole;
  return whole.empty() ? "" : "; every rank computes all of " + names_text(whole);
}

std::vector<std::string> grid_lines(const Config& config, const Plan& plan, const Shape& sample, int ranks) {
  const auto backend = make_reference_backend();
  std::vector<std::string> lines;
  const std::vector<Extent> resolutions = plan.resolutions();
  for (std::size_t i = 0; i < resolutions.size(); ++i) {
    const Grid grid{plan.grid(resolutions[i])};
    const int groups = ranks / grid.ranks();
    std::string line = grid.ranks() == 1
                           ? "each rank has its own samples"
                           : fmt::format(
                                 "each sample is shared by {} ranks, {} blocks along its axes; {} "
                                 "group{} of ranks",
                                 grid.ranks(), to_string(grid.blocks, sample.axes), groups, groups == 1 ? "" : "s");
    if (grid.ranks() > 1)
      line += repeated_text({*backend, network_settings(config, plan, sample, resolutions[i])}, grid);
    if (std::ranges::any_of(resolutions, [&](const Extent& r) { return plan.grid(r) != grid.blocks; }))
      line = fmt::format("resolution {}: {}", resolution_text(resolutions[i], plan.last.axes), line);
    line = "grid: " + line;
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
  return lines;
}

std::string replicas_text(int shards, int ranks) {
  const int own = shards / ranks, threads = omp_get_max_threads();
  return fmt::format(
      "deterministic: each of {} shards is computed by itself, by one thread: the same bits on any number of ranks and "
      "threads{}",
      shards, own < threads ? fmt::format("; {} of {} threads per rank are idle", threads - own, threads) : "");
}

// What an epoch takes of each sample at a resolution, and how whole ones are seen.
std::string boxes_text(const Config& config, const Shape& sample, const Extent& resolution) {
  const Shape whole = coarse_shape(sample, resolution), patch = patch_of(config.data.patch, whole);
  const Reach reach = reach_of(network_for(config, resolution, patch).layers);
  const Windows windows(config.data.patch, whole, reach);
  const Index boxes = patches_of(config.data.patch, whole), seen = windows.count();
  return fmt::format("boxes at {}: {} of {} of each sample in an epoch; whole samples are seen in {} window{}{}",
                     resolution_text(resolution, sample.axes), boxes, to_string(patch), seen, seen == 1 ? "" : "s",
                     windows.exact() ? ", as if at once"
                     : reach.whole   ? ", each by itself, as layers see all of a box"
                                     : ", which overlap by less than the network looks");
}

}  // namespace

void tell_more_epochs(const Plan& plan, RunLog& log) {
  const RateRule rule = plan.last.optimizer.rule;
  const bool curve = rule == RateRule::cosine || rule == RateRule::linear;
  log.line(fmt::format("more epochs: {} continues until {} epochs are done; its {} rate {}", phase_text(plan.last),
                       plan.last.stop.epochs, to_string(rule),
                       curve ? "continues along the curve of that length" : "continues as it was"));
}

void tell_data(RunLog& log, const ResolvedRun& run, Data& data, const Backend& backend, int ranks, bool by_teams) {
  for (const std::string& reason : run.reasons) log.line("auto: " + reason);
  log.line(fmt::format("{} rank{}, {}", ranks, ranks == 1 ? "" : "s", backend.description()));
  if (const Index groups = ranks / Grid{run.plan.last.grid}.ranks(); groups > 1)
    log.line(fmt::format("global batch {}: {} of each {}", run.plan.last.batch * groups, run.plan.last.batch,
                         groups == ranks ? "rank" : "group of ranks"));
  log.line(fmt::format("data: {} training and {} validation samples of {}{}", run.shape.samples,
                       data.validation().shape.samples, to_string(run.shape.sample),
                       by_teams ? "" : fmt::format(", read in {:.1f} s", data.load_seconds())));
  if (!data.train().shape.unused.empty()) log.line("data: " + data.train().shape.unused);
  for (const auto& [spec, split] :
       {std::pair(&run.config.data.train, &data.train()), std::pair(&run.config.data.validation, &data.validation())})
    for (const std::string& line : skipped_lines(*spec, split->shape)) log.line(line);
  if (!by_teams) log.line("data: " + data.way());
  if (!run.config.data.patch.any()) return;
  for (const Extent& resolution : run.plan.resolutions())
    log.line(boxes_text(run.config, run.shape.sample, resolution));
}

void tell_sharing(RunLog& log, const ResolvedRun& run, bool shard_replicas, int ranks) {
  if (run.plan.shares_samples())
    for (const std::string& line : grid_lines(run.config, run.plan, run.shape.sample, ranks)) log.line(line);
  if (shard_replicas) log.line(replicas_text(run.config.data.shards, ranks));
}

}  // namespace mrmf
