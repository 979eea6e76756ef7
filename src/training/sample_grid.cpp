#include "src/training/sample_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "layers/geometry.hpp"

namespace mrmf {
namespace {

Comm part_of(Comm& team, const Grid& grid, bool group) {
  require_whole_sample_groups(grid, team.size());
  const int blocks = grid.ranks();
  return team.split(group ? team.rank() / blocks : team.rank() % blocks);
}

// The positions of samples that a block needs at any of these resolutions, such that all of them divide its ends.
Box read_block(const Plan& plan, const Config& config, const Shape& sample, const SampleGrid& grid,
               const std::vector<Extent>& resolutions) {
  const auto backend = make_reference_backend();
  Extent first = sample.spatial, end{0, 0, 0}, step{1, 1, 1};
  for (const Extent& resolution : resolutions) {
    const Network network(*backend, network_settings(config, plan, sample, resolution));
    const Box box = Partition(network, grid.grid()).tensor(0).stored.block(grid.grid().coordinates(grid.block()));
    for (std::size_t a = 0; a < 3; ++a) {
      first[a] = std::min(first[a], box.first[a] * resolution[a]);
      end[a] = std::max(end[a], box.end(a) * resolution[a]);
      step[a] = std::lcm(step[a], resolution[a]);
    }
  }
  Box block;
  for (std::size_t a = 0; a < 3; ++a) {
    block.first[a] = first[a] / step[a] * step[a];
    block.count[a] = std::min((end[a] + step[a] - 1) / step[a] * step[a], sample.spatial[a]) - block.first[a];
  }
  return block;
}

}  // namespace

void require_whole_sample_groups(const Grid& grid, int ranks) {
  if (ranks % grid.ranks() == 0) return;
  throw ConfigError(fmt::format(
      "run.grid = {} shares each sample among {} ranks, and there {} {}; start a multiple of {}, or use another grid",
      grid.text(), grid.ranks(), ranks == 1 ? "is" : "are", ranks, grid.ranks()));
}

SampleGrid::SampleGrid(Backend& backend, const Grid& grid, Comm& team)
    : grid_(grid),
      sample_group_(part_of(team, grid, true)),
      same_block_(part_of(team, grid, false)),
      messages_(make_messages(backend, sample_group_)),
      over_same_block_(make_all_reduce(backend, same_block_)),
      over_sample_group_(make_all_reduce(backend, sample_group_)) {}

SumTime SampleGrid::take_time() {
  SumTime all = messages_->take_time();
  for (AllReduce* const sums : {over_same_block_.get(), over_sample_group_.get()}) {
    if (sums == nullptr) continue;
    const SumTime time = sums->take_time();
    all.waited += time.waited;
    all.hidden += time.hidden;
  }
  return all;
}

StageGrids::StageGrids(Backend& backend, const Config& config, const Plan& plan, const Shape& sample, Comm& world)
    : plan_(plan), world_(world) {
  for (const Extent& resolution : plan.resolutions()) {
    const Grid grid{plan.grid(resolution)};
    Shared& shared = grids_[grid.blocks];
    shared.resolutions.push_back(resolution);
    if (!shared.ranks && grid.ranks() > 1) shared.ranks = std::make_unique<SampleGrid>(backend, grid, world);
  }
  for (auto& [blocks, shared] : grids_)
    if (shared.ranks) shared.block = read_block(plan, config, sample, *shared.ranks, shared.resolutions);
}

DataShare StageGrids::share(const Extent& resolution) {
  Shared& shared = of(resolution);
  if (!shared.ranks) return {world_, {}, {}};
  return {shared.ranks->same_block(), shared.block, shared.resolutions, &world_};
}

}  // namespace mrmf
