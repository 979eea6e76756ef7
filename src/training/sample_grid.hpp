// The ranks of a run as groups that share their samples (run.grid): each rank of a group has a block of every sample's
// positions (layers/partition.hpp). The groups share out the samples, as ranks do without a grid.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "layers/partition.hpp"
#include "mpi/comm.hpp"
#include "src/training/data_parallel.hpp"

namespace mrmf {

class SampleGrid {
 public:
  /// Collective over `team`. ConfigError where the grid does not fit its number of ranks. Neighbouring ranks are a
  /// group. Keeps references to both.
  SampleGrid(Backend& backend, const Grid& grid, Comm& team);

  const Grid& grid() const { return grid_; }
  int block() const { return group_.rank(); }
  int groups() const { return same_block_.size(); }
  /// The ranks that share this rank's samples.
  Comm& group() { return group_; }
  /// One rank of each group: that with this rank's block. They have different samples.
  Comm& same_block() { return same_block_; }
  Messages& messages() { return *messages_; }
  /// Sums over same_block(); null: of this rank alone.
  AllReduce* over_same_block() { return over_same_block_.get(); }
  AllReduce* over_group() { return over_group_.get(); }
  /// Time of messages and sums since the last call.
  SumTime take_time();

 private:
  Grid grid_;
  Comm group_, same_block_;
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<AllReduce> over_same_block_, over_group_;
};

/// ConfigError unless so many ranks are whole groups.
void require_groups(const Grid& grid, int ranks);

}  // namespace mrmf
