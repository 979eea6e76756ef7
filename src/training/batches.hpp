// Batches of the plan's phases: the samples that a team takes in each step, in the order of io/rows/sample_order.hpp,
// and the place where the step finds them.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/data/augmentation.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

/// The source of a phase's randomness, besides the seed.
std::uint64_t phase_key(const Phase& phase);

/// The sample ids of one of the order's steps.
std::span<const std::int64_t> ids_of(const EpochOrder& order, const Range& rows);

/// The rows of each of this rank's shards in step k.
std::span<const Index> shard_rows(const EpochOrder& order, std::size_t k);

/// One of the micro-batches of a step, which are computed one after the other: their sizes differ by one at most.
Range micro_batch_of(const Range& step, int number, int micro_batches);

/// Training samples: how many there are, and of which shape at full resolution.
struct BatchSource {
  Index samples = 0;
  Shape sample;
};

/// ConfigError when a team of `ranks` cannot take this phase's batches from so many samples: more ranks than samples, a
/// batch larger than a shard, ..., or steps that leave a rank, or one of its micro-batches, without a sample.
void require_batches(const DataConfig& data, const BatchSource& of, const Phase& phase, int ranks, int micro_batches);

/// Sample orders over `data`, for this rank of the team. Keeps references to both.
class BatchSampler {
 public:
  /// A step is computed in training.accumulate micro-batches.
  BatchSampler(Data& data, Comm& team, const TrainingConfig& config)
      : data_(&data), team_(&team), seed_(config.seed), micro_batches_(config.accumulate) {}

  EpochOrder training(const Phase& phase, int epoch) const;
  /// In micro-batches, as training is: a whole batch may be more rows than a model holds. A micro-batch may be empty.
  EpochOrder validation(int batch) const;
  /// The same order with each step's micro-batches in its place; without their global rows.
  EpochOrder in_micro_batches(const EpochOrder& order) const;

  struct Shards {
    int own = 1, all = 1;  ///< shards of this rank, shards of the team
    Index most_rows = 1;   ///< most rows of one of them in a batch
  };
  Shards shards(const Phase& phase) const;

  /// The orders of a phase's first epoch. Batches have the same sizes in every epoch.
  struct First {
    EpochOrder training, validation;
    EpochOrder micro_batches;  ///< the micro-batches of training
    /// The different numbers of rows that this rank computes at once.
    std::set<Index> rows() const;
    /// The different numbers of rows in one shard's shares of them.
    std::set<Index> shard_rows() const;
  };
  /// ConfigError when training leaves this rank without samples.
  First first(const Phase& phase) const;

  /// A key for each micro-batch of each step, under which a backend may capture it. A captured step holds the sums over
  /// the ranks, and NCCL wants a sum to be captured by all ranks or by none. So a key stands for the rows of every rank
  /// in that step. Validation has no such sums; its keys are the rows, which are smaller. Collective.
  std::vector<std::uint64_t> capture_keys(const EpochOrder& micro_batches) const;

 private:
  OrderSettings training_settings(const Phase& phase) const;
  OrderSettings validation_settings(int batch) const;

  Data* data_;
  Comm* team_;
  std::uint64_t seed_;
  int micro_batches_;
};

/// Targets as those of outputs with these positions: a file may have labels as a list of numbers.
Shape with_positions(Shape target, const Extent& positions);
/// The positions of a box of every row, one row after the other, on the host.
void take_box(ConstTensor from, const Box& box, Span to);

/// The positions of samples and of their labels that a rank takes, at one resolution.
struct SampleBlock {
  Box samples, labels;
  Extent outputs{1, 1, 1};  ///< positions of whole labels, which a file may have as a list of numbers
};

/// The batches of a split at one resolution, at the place where training steps find them. They are gathered on the host
/// and copied one by one, or the step itself picks them from a table that a device holds whole.
class Batches {
 public:
  /// For batches of at most `most_rows`, whole or of a block. The split's store must hold the resolution; keeps
  /// references to both.
  Batches(Backend& backend, const Split& split, const Extent& resolution, Index most_rows,
          const SampleBlock* block = nullptr);

  /// Announces the batches of the coming load() calls, in order, so that streamed samples are read ahead, and an
  /// epoch's key, by which samples are changed at random (data.augment).
  void expect(const EpochOrder& order);
  /// Brings the samples of these ids. Call before Backend::begin of their step. Streamed: DataError on this rank alone.
  void load(std::span<const std::int64_t> ids);
  /// The batch loaded last; its ids are the step's. Part of a captured step.
  Feed::Batch batch(const StepContext& step);

 private:
  static std::optional<Augmenter> augmenter(const Split& split, const Extent& resolution);
  void fill_table(Index most_rows);
  void gather(std::span<const std::int64_t> ids, const Feed::HostBatch& into);
  void gather_block(std::span<const std::int64_t> ids, const Feed::HostBatch& into);

  const Split* split_;
  Extent resolution_;
  std::optional<Augmenter> augmenter_;
  std::uint64_t key_ = 0;  // key of the epoch whose batches were announced
  std::unique_ptr<SampleTable> table_;
  std::unique_ptr<Feed> feed_;  // used without a table
  Index outputs_;               // numbers of a sample's targets
  Extent gathered_;             // the resolution that the host makes; the feed may average further
  Feed::Batch loaded_;
  std::optional<SampleBlock> block_;     // none: whole samples
  std::vector<float> samples_, labels_;  // whole, of which the block is taken
};

}  // namespace mrmf
