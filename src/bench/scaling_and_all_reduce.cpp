// Benchmarks of several ranks: `mrmf bench scaling`, epochs of one model on 1, 2, ... ranks, and `mrmf bench network`,
// sums over ranks (all-reduce) by scheme and length.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>

#include "io/coarsen/coarsen.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/bench/bench.hpp"
#include "src/compare/compare.hpp"
#include "src/method/train_run.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/training/cpu_kernel_autotuning.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {

// `mrmf bench scaling`: its measurements, figures and output.

void compare_with_first(std::vector<ScalingPoint>& points) {
  for (ScalingPoint& point : points) {
    const ScalingPoint& first = points.front();
    point.ideal = first.epoch * first.ranks / point.ranks;
    point.speedup = first.epoch / point.epoch;
    point.efficiency = point.ideal / point.epoch;
  }
}

std::string scaling_table(const std::vector<ScalingPoint>& points) {
  std::string text = fmt::format("{:>5} {:>8} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>8} {:>10}\n",
                                 "ranks", "grid", "batch", "read", "epoch", "I/O", "compute", "waited", "hidden",
                                 "ideal", "samples/s", "speedup", "efficiency");
  for (const ScalingPoint& p : points)
    text += fmt::format(
        "{:>5} {:>8} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>11.3g} {:>8.2f} {:>8.1f} "
        "%\n",
        p.ranks, p.grid, p.batch, p.read, p.epoch, p.io, p.compute, p.waited, p.hidden, p.ideal, p.samples_per_second,
        p.speedup, 100 * p.efficiency);
  return text;
}

std::string scaling_csv(const std::vector<ScalingPoint>& points) {
  std::string text =
      "ranks,batch_per_rank,read_seconds,epoch_seconds,io_seconds,compute_seconds,waited_seconds,hidden_seconds,"
      "ideal_seconds,samples_per_second,speedup,efficiency,grid\n";
  for (const ScalingPoint& p : points)
    text += fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6g},{:.4f},{:.4f},{}\n", p.ranks,
                        p.batch, p.read, p.epoch, p.io, p.compute, p.waited, p.hidden, p.ideal, p.samples_per_second,
                        p.speedup, p.efficiency, p.grid);
  return text;
}

std::string scaling_json(const std::vector<ScalingPoint>& points) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ScalingPoint& p : points)
    all.push_back({{"ranks", p.ranks},
                   {"batch_per_rank", p.batch},
                   {"read_seconds", p.read},
                   {"epoch_seconds", p.epoch},
                   {"io_seconds", p.io},
                   {"compute_seconds", p.compute},
                   {"waited_seconds", p.waited},
                   {"hidden_seconds", p.hidden},
                   {"ideal_seconds", p.ideal},
                   {"samples_per_second", p.samples_per_second},
                   {"speedup", p.speedup},
                   {"efficiency", p.efficiency},
                   {"grid", p.grid}});
  return nlohmann::ordered_json{{"points", all}}.dump(2) + "\n";
}

Config last_step_alone(const Config& config, int epochs) {
  const Phase phase = make_plan(config).last;
  Config alone = config;
  alone.method = {};
  alone.method.resolutions = {phase.resolution};
  alone.method.axes = config.method.axes;
  alone.run.grid = {phase.grid};
  alone.training.optimizer = phase.optimizer;
  alone.training.batch = phase.batch;
  alone.training.epochs = epochs;
  alone.training.early_stopping = {};  // all of them are measured
  return alone;
}

namespace {

// Says what the figures are worth; "" for several nodes on which each thread has its own core.
std::string caution(const RunConfig& run, Comm& world) {
  const Index ranks = ranks_of_same(host_name(), world).size(), cores = omp_get_num_procs();
  const bool one_node = !world.any(ranks < world.size());
  if (!world.any(ranks * run.threads > cores))
    return one_node
               ? fmt::format(
                     "note: all ranks are on one node of {} cores. That shows that the measurement works, and what the "
                     "node's memory gives, not how fast the program scales over nodes.\n",
                     cores)
               : "";
  return fmt::format(
      "note: {} ranks with {} thread{} each share {} cores here. What more ranks than cores show is that the "
      "measurement works, not how fast the program scales.\n",
      ranks, run.threads, run.threads == 1 ? "" : "s", cores);
}

EpochRecord median_epoch(std::vector<EpochRecord> epochs) {
  const auto middle = epochs.begin() + std::ssize(epochs) / 2;
  std::ranges::nth_element(epochs, middle, {}, &EpochRecord::seconds);
  return *middle;
}

// The ranks that share samples, and the blocks that each of them reads; nothing for ranks with samples of their own.
std::optional<StageGrids> grids_of_team(Backend& backend, const Config& config, const Plan& plan, const Shape& sample,
                                        Comm& team) {
  if (!plan.shares_samples()) return {};
  return std::optional<StageGrids>(std::in_place, backend, config, plan, sample, team);
}

// Trains a fresh model on the team.
ScalingPoint measure_scaling_point(const Config& config, Comm& team) {
  const auto backend = make_backend(config.run, team);
  const Plan plan = make_plan(config);
  const Phase& phase = plan.last;
  if (std::ranges::any_of(plan.phases(),
                          [](const Phase& p) { return p.sums.communication == Communication::automatic; }))
    throw ConfigError(
        "bench scaling measures one way of adding, and training.communication = \"auto\" may take another for each "
        "number of ranks; set fp32, or the way to be measured");
  require_ways(plan, config, team.size(), backend->synchronous());
  Data data(config, team, plan.shares_samples() ? Data::Reading::later : Data::Reading::now);
  std::optional<StageGrids> grids = grids_of_team(*backend, config, plan, data.train().shape.sample, team);
  if (grids) data.load(grids->share(phase.resolution));
  RunLog silent;
  const RunContext ctx{
      .backend = *backend, .team = team, .data = data, .log = silent, .grids = grids ? &*grids : nullptr};
  choose_kernels(plan, config, ctx);
  ModelState model_state = make_model_state(plan, config, ctx, phase.resolution, phase.seed);
  TrainingLoop loop(ctx, config.training);
  loop.autotune(config, plan, phase);
  const PhaseHistory history = loop.train(model_state, phase);

  const EpochRecord epoch = median_epoch({history.epochs.begin() + 1, history.epochs.end()});
  ScalingPoint point;
  point.ranks = team.size();
  point.batch = phase.batch;
  point.grid = fmt::format("{}", fmt::join(factors(phase.grid, phase.axes), "x"));
  point.read = team.sum(data.load_seconds()) / team.size();
  point.epoch = epoch.seconds;
  point.io = epoch.time_shares.io.mean;
  point.compute = epoch.time_shares.compute.mean;
  point.waited = epoch.time_shares.communication.mean;
  point.hidden = epoch.time_shares.hidden;
  point.samples_per_second = static_cast<double>(epoch.samples) / epoch.seconds;
  return point;
}

// A plot is drawn from a table, which stays beside it.
OutputOption table_of(const ScalingSettings& settings) {
  if (settings.csv.given() || !settings.plot.given()) return settings.csv;
  return {settings.plot.file + ".csv", settings.plot.replace};
}

void show(const std::vector<ScalingPoint>& points, const ScalingSettings& settings, std::ostream& out) {
  out << scaling_table(points)
      << "seconds of the median epoch, means over the ranks; waited: for sums over the ranks and for "
         "messages between those that share samples; sums also ran hidden behind computation; ideal: the first "
         "line's epoch shared out evenly\n";
  const OutputOption table = table_of(settings);
  table.write(scaling_csv(points));
  settings.json.write(scaling_json(points));
  if (settings.plot.given()) draw_plot("plot_scaling.py", {table.file}, settings.plot);
}

// With a size for every axis of the samples, as grids need them.
Config resolved(Config config, const Shape& sample) {
  resolve_axes(config.model.layers, sample.axes);
  if (config.method.axes == 0) config.method.axes = sample.axes;
  return config;
}

// The planner's grid for every team.
void choose_grids(ScalingSettings& settings, const Config& config, const DatasetShape& data, Comm& world) {
  if (settings.weak) throw ConfigError("--weak keeps the ranks of a sample; give one --grid in place of \"planned\"");
  const Plan plan = make_plan(config);
  settings.mini_batch = plan.last.batch * std::max(1, settings.ranks.back() / Grid{plan.last.grid}.ranks());
  const int per_node = ranks_of_same(host_name(), world).size();
  RunConfig cpu = config.run;
  cpu.device = Device::cpu;
  const auto backend = make_backend(cpu, world);  // tables are of its fused layers
  settings.grids.resize(settings.ranks.size());
  collective_try(world, [&] {  // by the first node's tables, for all
    if (!world.root()) return;
    const CostTables tables = read_tables(settings.tables.empty() ? tables_file() : settings.tables);
    for (std::size_t i = 0; i < settings.ranks.size(); ++i) {
      const RankLayout rank_layout{settings.ranks[i], std::min(settings.ranks[i], per_node)};
      const SearchSettings search{.ranks = rank_layout,
                                  .mini_batch = settings.mini_batch,
                                  .sample = data.sample,
                                  .samples = static_cast<double>(data.samples)};
      settings.grids[i] =
          search_grids(*backend, *table_costs(tables, rank_layout), config, plan, search).front().fitting.front().grid;
    }
  });
  for (Grid& grid : settings.grids) world.broadcast(std::span<std::int64_t>(grid.blocks), 0);
}

// The grid cuts the network, and goes with the configuration.
void require_grid(const Config& config, const ScalingTeam& team, const Shape& sample) {
  if (team.grid.ranks() == 1) return;
  Config own = config;
  own.run.grid = {team.grid.blocks};
  if (!own.training.global_batch_norm)
    throw ConfigError(
        "a grid does not go with training.batch_norm = \"local\", because statistics are of whole samples; use "
        "\"global\"");
  const auto backend = make_reference_backend();
  const Plan plan = make_plan(own);
  const Network network(*backend, network_settings(own, plan, sample, plan.last.resolution));
  const Partition fits(network, team.grid);
}

std::string title(const ScalingSettings& settings, const Config& config) {
  return fmt::format("{} scaling of {} at resolution {}\n", settings.weak ? "weak" : "strong",
                     config.model.preset.empty() ? "the model" : config.model.preset,
                     resolution_text(config.method.resolutions.back(), config.method.axes));
}

// What is measured is the model of the last phase, which may have a stem.
void take_last_network(Config& config, const Config& configured, const Shape& sample) {
  Config whole = configured;
  whole.model = config.model;
  const Extent resolution = make_plan(configured).last.resolution;
  NetworkSettings last = network_for(whole, resolution, coarse_shape(sample, resolution));
  config.model.layers = std::move(last.layers);
  config.model.bottom = std::move(last.bottom);
}

void require_outputs(const ScalingSettings& settings, Comm& world) {
  collective_try(world, [&] {
    if (!world.root()) return;
    table_of(settings).require();
    settings.json.require();
    if (settings.plot.given()) pictures_of(settings.plot);
  });
}

}  // namespace

void bench_scaling(const Config& configured, ScalingSettings settings, Comm& world, std::ostream& out) {
  require_outputs(settings, world);
  Config config = last_step_alone(configured, settings.epochs + 1);
  world.limit(config.run.timeout);
  const DatasetShape data = inspect_dataset(config.data.train, world);
  config = resolved(std::move(config), data.sample);
  take_last_network(config, configured, data.sample);
  // Chosen for all ranks together, so that a small team's ranks take no more cores than they would among all.
  config.run.threads = choose_threads(config.run.threads, world);
  if (settings.planned) {
    settings.ranks = scaling_teams(settings.ranks, world.size());
    choose_grids(settings, config, data, world);
  }
  const std::vector<ScalingTeam> teams = scaling_plan(settings, make_plan(config).last, world.size());
  for (const ScalingTeam& team : teams) require_grid(config, team, data.sample);  // all before measuring any
  const std::string warning = caution(config.run, world);
  if (world.root()) out << title(settings, config) << warning << std::flush;
  Comm unlimited = world.duplicate();
  unlimited.limit(0);  // a small team may train for a long time
  std::vector<ScalingPoint> points;
  for (const ScalingTeam& shared : teams) {
    config.training.batch = shared.batch;
    config.run.grid = {shared.grid.blocks};
    const bool takes_part = world.rank() < shared.ranks;
    Comm team = world.split(takes_part ? 0 : 1);
    if (takes_part) points.push_back(measure_scaling_point(config, team));
    unlimited.barrier();
  }
  compare_with_first(points);
  if (world.root()) show(points, settings, out);
}

// The teams that `mrmf bench scaling` measures: their ranks, grids and batches.

namespace {

/// The grid of every team.
std::vector<Grid> grids_of_teams(const ScalingSettings& settings, const Grid& configured, std::size_t teams) {
  if (settings.grids.size() <= 1)
    return std::vector<Grid>(teams, settings.grids.empty() ? configured : settings.grids.front());
  if (settings.weak)
    throw ConfigError(
        "--weak keeps the ranks of a sample, so it takes one --grid; without --weak, each team may have one");
  if (settings.grids.size() != teams)
    throw ConfigError(
        fmt::format("--grid names {} grids, and there are {} team{} to measure; give one for all, or one for each "
                    "number of --ranks in increasing order",
                    settings.grids.size(), teams, teams == 1 ? "" : "s"));
  return settings.grids;
}

}  // namespace

Grid parse_grid(const std::string& text) {
  std::vector<Index> blocks;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    Index number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < 1 || number > 1 << 20 || blocks.size() == 3 || (next != end && *next != ','))
      throw ConfigError("--grid " + text +
                        ": it must be one to three integers such as 2 or 2,1,1, the blocks along the axes of "
                        "every sample, or \"planned\"");
    blocks.push_back(number);
    more = next != end;
    at = more ? next + 1 : next;
  }
  Grid grid;
  std::ranges::copy(blocks, grid.blocks.end() - static_cast<std::ptrdiff_t>(blocks.size()));
  return grid;
}

std::vector<int> scaling_teams(const std::vector<int>& wanted, int world, int group) {
  std::vector<int> teams = wanted;
  if (teams.empty()) {
    if (group > world)
      throw ConfigError(
          fmt::format("a grid of {} blocks needs as many ranks, and this job has {}; start it with mpirun -n {}", group,
                      world, group));
    const int most = world / group * group;
    for (int ranks = group; ranks < most; ranks *= 2) teams.push_back(ranks);
    teams.push_back(most);
  }
  for (const int ranks : teams)
    if (ranks < 1 || ranks > world)
      throw ConfigError(fmt::format("--ranks {}: this job has {} rank{}; start it with mpirun -n {}, or measure fewer",
                                    ranks, world, world == 1 ? "" : "s", *std::ranges::max_element(teams)));
  std::ranges::sort(teams);
  teams.erase(std::unique(teams.begin(), teams.end()), teams.end());
  return teams;
}

int scaling_batch(const ScalingSettings& settings, int configured, int groups, int most_groups) {
  if (settings.weak) return configured;
  const int whole = settings.mini_batch > 0 ? settings.mini_batch : configured * most_groups;
  if (whole % groups != 0)
    throw ConfigError(fmt::format(
        "strong scaling keeps the mini-batch, batch {} on {} ranks = {}, and {} ranks cannot share that out "
        "evenly; set training.batch so that they can, or give --weak (ranks that share a sample count as one)",
        configured, most_groups, whole, groups));
  return whole / groups;
}

std::vector<ScalingTeam> scaling_plan(const ScalingSettings& settings, const Phase& last, int world) {
  const Grid configured{last.grid};
  const bool one = settings.grids.size() <= 1;
  const Grid& common = settings.grids.empty() ? configured : settings.grids.front();
  const std::vector<int> ranks = scaling_teams(settings.ranks, world, one ? common.ranks() : 1);
  const std::vector<Grid> grids = grids_of_teams(settings, configured, ranks.size());
  std::vector<ScalingTeam> teams;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] % grids[i].ranks() != 0)
      throw ConfigError(
          fmt::format("--ranks {}: the grid {} shares each sample among {} ranks; give a multiple of {}, or another "
                      "--grid",
                      ranks[i], grids[i].text(), grids[i].ranks(), grids[i].ranks()));
    teams.push_back({ranks[i], grids[i], 1});
  }
  for (ScalingTeam& team : teams)
    team.batch = scaling_batch(settings, last.batch, team.groups(), teams.back().groups());
  return teams;
}

// `mrmf bench network`: seconds of a sum over ranks by scheme and length, beside what its bytes and codes take at
// least.

namespace {

struct Row {
  std::size_t values;
  SumTrial trial;
  double limit;  // seconds that the link needs for the bytes, and the rank for the codes
};

std::vector<Row> time_sums(const SumBenchSettings& settings, double link, Comm& world) {
  using enum Communication;
  std::vector<Row> rows;
  for (const Index values : settings.values)
    for (const Communication scheme : {fp32, bf16, int8, levels8, levels4, vote}) {
      if (world.size() > most_workers({scheme})) continue;
      const SumTrial trial = try_sum(scheme, static_cast<std::size_t>(values), settings.times, world);
      rows.push_back({static_cast<std::size_t>(values), trial, trial.packing + trial.sent / link});
    }
  return rows;
}

std::string json_of(const std::vector<Row>& rows, const Comm& world, double link, bool given) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    all.push_back({{"values", row.values},
                   {"communication", to_string(row.trial.scheme)},
                   {"sent_bytes", row.trial.sent},
                   {"seconds", row.trial.seconds},
                   {"packing_seconds", row.trial.packing},
                   {"limit_seconds", row.limit}});
  return nlohmann::ordered_json{
      {"ranks", world.size()}, {"bytes_per_second", link}, {"measured", !given}, {"sums", all}}
      .dump(2);
}

}  // namespace

void bench_network(const SumBenchSettings& settings, Comm& world, std::ostream& out) {
  if (world.size() == 1) throw ConfigError("bench network needs two ranks or more: mpirun -n 2 mrmf bench network");
  const bool given = settings.gbit > 0;
  const double link = given ? settings.gbit * 1e9 / 8 : measured_link(world);
  const std::vector<Row> rows = time_sums(settings, link, world);
  if (!world.root()) return;
  if (settings.print_json) {
    out << json_of(rows, world, link, given) << "\n";
    return;
  }
  out << fmt::format("{} ranks; {} {:.3g} Gbit/s that each sends\n", world.size(),
                     given ? "by" : "measured:", 8e-9 * link);
  out << fmt::format("{:>10} {:<8} {:>10} {:>10} {:>11} {:>10} {:>7} {:>9}\n", "values", "", "MB sent", "ms",
                     "packing ms", "both ms", "ratio", "fp32 / it");
  double plain = 0;
  for (const Row& row : rows) {
    if (row.trial.scheme == Communication::fp32) plain = row.trial.seconds;
    out << fmt::format("{:>10} {:<8} {:>10.3f} {:>10.2f} {:>11.2f} {:>10.2f} {:>7.2f} {:>9.2f}\n", row.values,
                       to_string(row.trial.scheme), 1e-6 * row.trial.sent, 1e3 * row.trial.seconds,
                       1e3 * row.trial.packing, 1e3 * row.limit, row.trial.seconds / row.limit,
                       plain / row.trial.seconds);
  }
}

}  // namespace mrmf
