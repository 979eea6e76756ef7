#include "src/training/sample_grid.hpp"

#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "mpi/messages.hpp"

namespace mrmf {
namespace {

Comm part_of(Comm& team, const Grid& grid, bool group) {
  require_groups(grid, team.size());
  const int blocks = grid.ranks();
  return team.split(group ? team.rank() / blocks : team.rank() % blocks);
}

}  // namespace

void require_groups(const Grid& grid, int ranks) {
  if (ranks % grid.ranks() == 0) return;
  throw ConfigError(fmt::format(
      "run.grid = {} shares each sample among {} ranks, and there are {}; start a multiple of {}, or use another grid",
      to_string(grid.blocks, 3), grid.ranks(), ranks, grid.ranks()));
}

SampleGrid::SampleGrid(Backend& backend, const Grid& grid, Comm& team)
    : grid_(grid),
      group_(part_of(team, grid, true)),
      same_block_(part_of(team, grid, false)),
      messages_(make_messages(group_)),
      over_same_block_(make_all_reduce(backend, same_block_)),
      over_group_(make_all_reduce(backend, group_)) {}

SumTime SampleGrid::take_time() {
  SumTime all = messages_->take_time();
  for (AllReduce* ranks : {over_same_block_.get(), over_group_.get()}) {
    if (ranks == nullptr) continue;
    const SumTime sums = ranks->take_time();
    all.waited += sums.waited;
    all.hidden += sums.hidden;
  }
  return all;
}

}  // namespace mrmf
