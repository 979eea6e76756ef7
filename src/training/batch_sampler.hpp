// The batches of a plan's training steps: which samples a team takes in which step, by the sample order of
// io/order.hpp, and where the step finds them.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "src/data/data.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

/// What a phase of the plan draws its randomness from, beside the seed.
std::uint64_t phase_key(const Phase& phase);

/// The sample ids of one of the order's steps.
std::span<const std::int64_t> ids_of(const EpochOrder& order, const Range& rows);

/// The rows of each of this rank's shards in step k.
std::span<const Index> shard_rows(const EpochOrder& order, std::size_t k);

/// ConfigError where a team of `ranks` cannot take this step's batches from so many samples: more ranks than samples, a
/// batch larger than a shard, ..., or steps that leave a rank without a sample.
void require_batches(const DataConfig& data, Index samples, const Phase& phase, int ranks);

/// Sample orders over `data`, for this rank of the team. Keeps references to both.
class BatchSampler {
 public:
  BatchSampler(Data& data, Comm& team, std::uint64_t seed) : data_(&data), team_(&team), seed_(seed) {}

  EpochOrder training(const Phase& phase, int epoch) const;
  EpochOrder validation(int batch) const;

  struct Shards {
    int own = 1, all = 1;  ///< of this rank, of the team
    Index most_rows = 1;   ///< of one of them, in a batch
  };
  Shards shards(const Phase& phase) const;

  /// The orders of a stage's first epoch: the sizes of its batches are those of every epoch.
  struct First {
    EpochOrder training, validation;
    /// The numbers of rows that this rank's batches have.
    std::set<Index> rows() const;
    /// The numbers of rows that one shard's shares of them have.
    std::set<Index> shard_rows() const;
  };
  /// ConfigError where training leaves this rank without samples.
  First first(const Phase& phase) const;

  /// A key for each step, under which a backend may record it. A recorded step holds the sums over the ranks, and NCCL
  /// wants a sum recorded by all ranks or by none: so a key stands for the rows of every rank in that step. Validation
  /// has no such sums; its keys are the rows, which are smaller. Collective.
  std::vector<std::uint64_t> record_keys(const EpochOrder& order) const;

 private:
  OrderSettings settings(const Split& split, int batch) const;

  Data* data_;
  Comm* team_;
  std::uint64_t seed_;
};

/// The batches of a split at one resolution, where training steps find them: gathered on the host and copied one by
/// one, or picked by the step itself from a table that a device holds whole.
class Batches {
 public:
  /// For batches of at most `most_rows`. The split's store must hold the resolution; keeps references to both.
  Batches(Backend& backend, const Split& split, const Extent& resolution, Index most_rows);

  /// The batches that load() will ask for, in this order: streamed samples are then read ahead.
  void expect(const EpochOrder& order);
  /// Brings the samples of these ids: before Backend::begin of their step. Streamed: DataError on this rank alone.
  void load(std::span<const std::int64_t> ids);
  /// They are the step's ids. Part of a recorded step.
  Feed::Batch batch(const Step& step);

 private:
  void fill_table(Index most_rows);
  void gather(std::span<const std::int64_t> ids, const Feed::HostBatch& into);

  const Split* split_;
  Extent resolution_;
  std::unique_ptr<SampleTable> table_;
  std::unique_ptr<Feed> feed_;  // where there is no table
  Extent gathered_;             // the resolution that the host makes: the feed may average further
  Feed::Batch loaded_;
};

}  // namespace mrmf
