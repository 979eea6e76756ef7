// The order in which a rank visits samples: pure functions, no files, no MPI.
//
// The data set is cut into `shards` contiguous pieces (sizes differ by at most one); a rank owns shards/ranks of them.
// An epoch shuffles inside each shard, or shuffles all samples before the cut; then any rank may visit any of them.
// Every step takes the same share of every shard. So with a fixed number of shards the global mini-batches hold the
// same samples on any number of ranks. The steps of an epoch have equal sizes up to one row per shard: no sample is
// left out and none is seen twice, unless classes are drawn equally often. Within a step the rows of all ranks, rank
// after rank, are the same sequence on any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

struct ClassBalance;  // io/rows/balanced_draws.hpp

struct Range {
  Index first = 0, count = 0;
  bool operator==(const Range&) const = default;
};

/// Piece `part` of `count` items cut into `parts` contiguous pieces whose sizes differ by at most one.
Range piece(Index count, Index part, Index parts);

struct EpochOrder {
  std::vector<std::int64_t> ids;   ///< numbers of samples, or of boxes where repeats > 1, of this rank, step after step
  std::vector<Range> steps;        ///< this rank's rows of `ids` per step (may be empty for a rank, never for all)
  std::vector<Index> global_rows;  ///< rows of the whole team per step: the weight of the mean gradient
  std::vector<Index> shard_rows;   ///< from epoch_order: rows per step from each of this rank's shards, step after step
  std::uint64_t key = 0;           ///< from epoch_order: of this epoch's randomness; 0: there is none
};

struct OrderSettings {
  Index samples = 0;        ///< samples of the whole data set
  int ranks = 1, rank = 0;  ///< ranks and rank of the team that trains on it
  int shards = 1;           ///< a multiple of ranks
  Index batch = 1;          ///< largest number of rows per rank and step; batch * ranks is a multiple of shards
  bool shuffle = true;
  bool across = false;  ///< shuffle over all samples, rather than each shard by itself
  /// How often each sample comes in an epoch, as different boxes of it (io/rows/patches.hpp). With more than one, ids
  /// are numbers of boxes: sample * repeats + box.
  Index repeats = 1;
  /// Where an epoch draws classes equally often: as many samples as there are, those of small classes several times,
  /// and some of large ones not at all. Null: each sample once.
  std::shared_ptr<const ClassBalance> balance{};
};

/// Whether every rank eventually visits every sample.
bool visits_all(const OrderSettings& settings);

/// The rows of the data set that this rank eventually visits.
Range visited_rows(const OrderSettings& settings);

/// Largest number of rows that one step takes from one shard.
Index rows_per_shard(const OrderSettings& settings);

/// Steps of an epoch: the same on every rank.
Index steps_per_epoch(const OrderSettings& settings);

/// The largest batch that check() accepts: a validation set smaller than the training batch uses this one.
Index largest_batch(const OrderSettings& settings);

/// The order of one epoch: a pure function of its arguments. phase_key: a number of its own for each phase of the plan.
EpochOrder epoch_order(const OrderSettings& settings, std::uint64_t seed, std::uint64_t phase_key, std::uint64_t epoch);

/// Rows in order, `batch` at a time.
EpochOrder in_order(Range rows, Index batch);

/// Whether some step of an epoch gives some rank no sample: one row per shard and step, uneven shards.
bool leaves_ranks_idle(const OrderSettings& settings);

/// ConfigError when the settings are impossible: batch larger than the shard, shards not a multiple of ranks, ...
/// The functions above expect settings that pass.
void check(const OrderSettings& settings);

}  // namespace mrmf
