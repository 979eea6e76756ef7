// The ranks of a run as sample groups (run.grid): each rank of a group has a block of every sample's positions
// (layers/partition.hpp). The groups share out the samples, as ranks do without a grid. Every resolution of a
// plan may have a grid of its own.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kernels/backend.hpp"
#include "layers/partition.hpp"
#include "mpi/comm.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"
#include "src/training/data_parallel.hpp"

namespace mrmf {

class SampleGrid {
 public:
  /// Collective over `team`. ConfigError where the grid does not fit its number of ranks. Neighbouring ranks are a
  /// group. Keeps references to both.
  SampleGrid(Backend& backend, const Grid& grid, Comm& team);

  const Grid& grid() const { return grid_; }
  int block() const { return sample_group_.rank(); }
  /// The ranks that share this rank's samples.
  Comm& sample_group() { return sample_group_; }
  /// One rank of each group: that with this rank's block. They have different samples.
  Comm& same_block() { return same_block_; }
  Messages& messages() { return *messages_; }
  /// Sums over same_block(); null: of this rank alone.
  AllReduce* over_same_block() { return over_same_block_.get(); }
  /// Sums over the ranks of this group.
  AllReduce* over_sample_group() { return over_sample_group_.get(); }
  /// Time of messages and sums since the last call.
  SumTime take_time();

 private:
  Grid grid_;
  Comm sample_group_, same_block_;
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<AllReduce> over_same_block_, over_sample_group_;
};

/// The grids of a plan's resolutions.
class StageGrids {
 public:
  /// Collective over `world`. ConfigError where a grid does not fit its number of ranks. Keeps references to the
  /// backend and to `world`.
  StageGrids(Backend& backend, const Config& config, const Plan& plan, const Shape& sample, Comm& world);

  /// The ranks that share each sample at this resolution of the plan; null: each rank has its own.
  SampleGrid* at(const Extent& resolution) { return of(resolution).ranks.get(); }
  /// What this rank takes of the data for it, and for all resolutions with the same grid.
  DataShare share(const Extent& resolution);

 private:
  struct Shared {
    std::unique_ptr<SampleGrid> ranks;
    std::vector<Extent> resolutions;
    std::optional<Box> block;  // that the rank needs at any of them
  };
  Shared& of(const Extent& resolution) { return grids_.at(plan_.grid(resolution)); }

  Plan plan_;
  Comm& world_;
  std::map<Extent, Shared> grids_;
};

/// ConfigError unless so many ranks are whole groups.
void require_whole_sample_groups(const Grid& grid, int ranks);

}  // namespace mrmf
