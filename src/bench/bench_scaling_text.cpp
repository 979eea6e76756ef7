// What `mrmf bench scaling` works out and prints, apart from measuring.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/check.hpp"
#include "src/bench/bench_scaling.hpp"

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

}  // namespace mrmf
