// The teams that `mrmf bench scaling` measures: their ranks, grids and batches.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernels/check.hpp"
#include "src/bench/bench.hpp"

namespace mrmf {
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

}  // namespace mrmf
