// `mrmf bench scaling`: its measurements, figures and output.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/bench/bench.hpp"
#include "src/compare/compare.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {

std::vector<int> scaling_teams(const std::vector<int>& wanted, int world) {
  std::vector<int> teams = wanted;
  if (teams.empty()) {
    for (int ranks = 1; ranks < world; ranks *= 2) teams.push_back(ranks);
    teams.push_back(world);
  }
  for (const int ranks : teams)
    if (ranks < 1 || ranks > world)
      throw ConfigError(fmt::format("--ranks {}: this job has {} rank{}; start it with mpirun -n {}, or measure fewer",
                                    ranks, world, world == 1 ? "" : "s", *std::ranges::max_element(teams)));
  std::ranges::sort(teams);
  teams.erase(std::unique(teams.begin(), teams.end()), teams.end());
  return teams;
}

int scaling_batch(const ScalingSettings& settings, int configured, int ranks, int most_ranks) {
  if (settings.weak) return configured;
  const int whole = configured * most_ranks;
  if (whole % ranks != 0)
    throw ConfigError(fmt::format(
        "strong scaling keeps the mini-batch, batch {} on {} ranks = {}, and {} ranks cannot share that out "
        "evenly; set training.batch so that they can, or give --weak",
        configured, most_ranks, whole, ranks));
  return whole / ranks;
}

void compare_with_first(std::vector<ScalingPoint>& points) {
  for (ScalingPoint& point : points) {
    const ScalingPoint& first = points.front();
    point.ideal = first.epoch * first.ranks / point.ranks;
    point.speedup = first.epoch / point.epoch;
    point.efficiency = point.ideal / point.epoch;
  }
}

std::string scaling_table(const std::vector<ScalingPoint>& points) {
  std::string text =
      fmt::format("{:>5} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>8} {:>10}\n", "ranks", "batch",
                  "read", "epoch", "I/O", "compute", "waited", "hidden", "ideal", "samples/s", "speedup", "efficiency");
  for (const ScalingPoint& p : points)
    text += fmt::format(
        "{:>5} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>11.0f} {:>8.2f} {:>8.1f} %\n",
        p.ranks, p.batch, p.read, p.epoch, p.io, p.compute, p.waited, p.hidden, p.ideal, p.samples_per_second,
        p.speedup, 100 * p.efficiency);
  return text;
}

std::string scaling_csv(const std::vector<ScalingPoint>& points) {
  std::string text =
      "ranks,batch_per_rank,read_seconds,epoch_seconds,io_seconds,compute_seconds,waited_seconds,hidden_seconds,"
      "ideal_seconds,samples_per_second,speedup,efficiency\n";
  for (const ScalingPoint& p : points)
    text += fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.1f},{:.4f},{:.4f}\n", p.ranks,
                        p.batch, p.read, p.epoch, p.io, p.compute, p.waited, p.hidden, p.ideal, p.samples_per_second,
                        p.speedup, p.efficiency);
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
                   {"efficiency", p.efficiency}});
  return nlohmann::ordered_json{{"points", all}}.dump(2) + "\n";
}

Config last_step_alone(const Config& config, int epochs) {
  const Phase phase = make_plan(config).last;
  Config alone = config;
  alone.method = {};
  alone.method.resolutions = {phase.resolution};
  alone.method.axes = config.method.axes;
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
      "measurement "
      "works, not how fast the program scales.\n",
      ranks, run.threads, run.threads == 1 ? "" : "s", cores);
}

EpochRecord median_epoch(std::vector<EpochRecord> epochs) {
  const auto middle = epochs.begin() + std::ssize(epochs) / 2;
  std::ranges::nth_element(epochs, middle, {}, &EpochRecord::seconds);
  return *middle;
}

// Trains a fresh model on the team.
ScalingPoint measure(const Config& config, Comm& team) {
  const auto backend = make_backend(config.run, team);
  Data data(config, team);
  RunReport silent;
  const RunContext ctx{*backend, team, data, silent};
  const Plan plan = make_plan(config);
  const Phase& phase = plan.last;
  ModelState model_state = make_model_state(plan, config, ctx, phase.resolution, phase.seed);
  Trainer trainer(ctx, config.training);
  trainer.autotune(config, plan, phase);
  const PhaseHistory history = trainer.train(model_state, phase);

  const EpochRecord epoch = median_epoch({history.epochs.begin() + 1, history.epochs.end()});
  ScalingPoint point;
  point.ranks = team.size();
  point.batch = phase.batch;
  point.read = team.sum(data.load_seconds()) / team.size();
  point.epoch = epoch.seconds;
  point.io = epoch.split.io.mean;
  point.compute = epoch.split.compute.mean;
  point.waited = epoch.split.communication.mean;
  point.hidden = epoch.split.hidden;
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
      << "seconds of the median epoch, means over the ranks; waited: for sums over the ranks, which also went on "
         "hidden "
         "behind computation; ideal: the first line's epoch shared out evenly\n";
  const OutputOption table = table_of(settings);
  table.write(scaling_csv(points));
  settings.json.write(scaling_json(points));
  if (settings.plot.given()) draw_plot("plot_scaling.py", {table.file}, settings.plot);
}

}  // namespace

void bench_scaling(const Config& configured, ScalingSettings settings, Comm& world, std::ostream& out) {
  Config config = last_step_alone(configured, settings.epochs + 1);
  collective_try(world, [&] {
    if (!world.root()) return;
    table_of(settings).require();
    settings.json.require();
    if (settings.plot.given()) pictures_of(settings.plot);
  });
  world.limit(config.run.timeout);
  // Chosen for all ranks together, so that a small team's ranks take no more cores than they would among all.
  config.run.threads = choose_threads(config.run.threads, world);
  const std::vector<int> teams = scaling_teams(settings.ranks, world.size());
  const int batch = config.training.batch;
  for (const int ranks : teams) scaling_batch(settings, batch, ranks, teams.back());  // all before measuring any
  const std::string warning = caution(config.run, world);
  if (world.root())
    out << fmt::format("{} scaling of {} at resolution {}\n", settings.weak ? "weak" : "strong",
                       config.model.preset.empty() ? "the model" : config.model.preset,
                       resolution_text(config.method.resolutions.back(), config.method.axes))
        << warning << std::flush;
  Comm unlimited = world.duplicate();
  unlimited.limit(0);  // a small team may train for a long time
  std::vector<ScalingPoint> points;
  for (const int ranks : teams) {
    config.training.batch = scaling_batch(settings, batch, ranks, teams.back());
    const bool takes_part = world.rank() < ranks;
    Comm team = world.split(takes_part ? 0 : 1);
    if (takes_part) points.push_back(measure(config, team));
    unlimited.barrier();
  }
  compare_with_first(points);
  if (world.root()) show(points, settings, out);
}

}  // namespace mrmf
