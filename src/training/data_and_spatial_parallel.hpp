// How ranks share the training of a model. Data parallelism: all-reduces of gradients and statistics, and checks that
// all ranks hold the same model. Spatial parallelism: groups of ranks that share every sample (run.grid).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/step_and_collectives.hpp"
#include "kernels/tensor.hpp"
#include "kernels/timer.hpp"
#include "layers/model.hpp"
#include "layers/partition.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

// A hash of what an arena holds, whichever memory it is in.

/// XXH3 of the values' bytes. Reads a few megabytes at once, so that no second copy of a large model is needed.
std::uint64_t arena_hash(Backend& backend, ConstSpan values, std::uint64_t seed = 0);

// Sums under way beside backward, and the time that they take.

/// A sum that was started continues beside computation as far as MPI advances it by itself. Each later start, and
/// finish, advance all of them.
class PendingSums {
 public:
  /// start() begins a sum; what it does besides is waiting.
  template <class Start>
  void start(const Start& begin) {
    move_on();
    const Timer timer;
    under_way_.push_back(begin());
    count_waiting(timer);
    since_ = {};
  }
  void finish() {
    move_on();
    const Timer timer;
    for (PendingSum& sum : under_way_) sum.finish();
    under_way_.clear();
    count_waiting(timer);
  }
  /// Seconds within start() or finish() that went to computation.
  void computed(double seconds) { computed_ += seconds; }
  void waited(double seconds) { time_.waited += seconds; }
  SumTime take_time() { return std::exchange(time_, {}); }

 private:
  // Computation since the last MPI call has hidden the sums that are still under way. A sum that has ended meanwhile
  // may have ended early and is not counted.
  void move_on() {
    const double calculated = since_.seconds();
    const Timer timer;
    std::erase_if(under_way_, [](PendingSum& sum) { return sum.test(); });
    count_waiting(timer);
    if (!under_way_.empty()) time_.hidden += calculated;
  }
  void count_waiting(const Timer& timer) { time_.waited += timer.seconds() - std::exchange(computed_, 0); }

  std::vector<PendingSum> under_way_;
  double computed_ = 0;
  Timer since_;  // since the last MPI call
  SumTime time_;
};

// Data parallelism over the ranks of a team: the sums of gradients and of batch norm's statistics that keep their
// models equal, and checks that every rank holds the same.

/// The backend's own sums if it has them (NCCL), else MPI's in host memory; null for a team of one. Collective; keeps a
/// reference to `team`.
std::unique_ptr<AllReduce> make_all_reduce(Backend& backend, Comm& team);

/// Messages between the ranks of a group: the backend's own if it has them (NCCL), else MPI's in host memory.
/// Collective; keeps a reference to `sample_group`.
std::unique_ptr<Messages> make_messages(Backend& backend, Comm& sample_group);

/// Whether each rank updates the piece of the parameters whose gradients it adds (ShardedUpdate): the one rule,
/// for training, for the memory of models, and for plans. `by_pieces`: the ranks that train the model add its gradients
/// by reduce-scatter, as AllReduce::updates() says and mpi::adds_by_reduce_scatter() foresees; shard replicas do not.
/// Where gradients are clipped, all must be summed before the first parameter is updated. Sums that travel as codes
/// come back as codes.
bool updates_in_pieces(const TrainingConfig& training, const SumSettings& sums, bool by_pieces);

/// What is compared. With local batch norm, each rank has its own running statistics within an epoch.
enum class Compared { parameters, parameters_and_state };

/// Who compares: weights that are cut are the same on the ranks with the same block of a grid alone, all else on the
/// whole team. Without a grid both are the team.
struct ComparedRanks {
  Comm& team;
  Comm& same_block;
};

/// FaultError, on every rank, when the model does not have the same bits on all of them. `position` is the position in
/// the run: "at the start of stage 1 (...)". The message names the ranks of the world that differ from most, and their
/// nodes. When all agree, this costs a hash on each rank and 16 bytes of messages, twice with row-parallel weights.
/// Collective.
void require_same_model(Backend& backend, Model& model, Compared what, const ComparedRanks& ranks,
                        const std::string& position);

/// Makes the running statistics their mean over the ranks. With local batch norm every rank has its own; the model that
/// is validated, fused and saved has the mean. Collective.
void average_state(Backend& backend, Model& model, Comm& team);

// The ranks of a run as sample groups (run.grid): each rank of a group has a block of every sample's positions
// (layers/partition.hpp). The groups share out the samples, as ranks do without a grid. Every resolution of a
// plan may have a grid of its own.

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
