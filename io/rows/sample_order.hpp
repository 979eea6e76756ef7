// Which samples a rank takes in each step of an epoch: their order over shards and ranks, classes drawn equally often,
// and patches (boxes) of samples that are too large to be trained on whole. Pure functions, no files, no MPI.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

// The order in which a rank visits samples: pure functions, no files, no MPI.
//
// The data set is cut into `shards` contiguous pieces (sizes differ by at most one); a rank owns shards/ranks of them.
// An epoch shuffles inside each shard, or shuffles all samples before the cut; then any rank may visit any of them.
// Every step takes the same share of every shard. So with a fixed number of shards the global mini-batches hold the
// same samples on any number of ranks. The steps of an epoch have equal sizes up to one row per shard: no sample is
// left out and none is seen twice, unless classes are drawn equally often. Within a step the rows of all ranks, rank
// after rank, are the same sequence on any number of ranks.

struct ClassBalance;

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
  /// How often each sample comes in an epoch, as different boxes of it (PatchSettings). With more than one,
  /// ids are numbers of boxes: sample * repeats + box.
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

// Epochs in which classes come equally often (data.sampling = "balanced"): pure functions, no files, no MPI.
//
// A shard draws as many samples as it has, and only samples of its own. Classes are balanced over all shards together:
// a shard that lacks a class draws more of the others, and shards that have it draw more of it.

/// How many samples of each class a shard draws in an epoch: [shard][class].
using ClassQuotas = std::vector<std::vector<Index>>;

/// What the epochs of a data set draw of its classes.
struct ClassBalance {
  std::vector<std::int32_t> classes;  ///< the class of every sample, below 0 where it has none
  ClassQuotas quotas;                 ///< for every shard; for all samples together where they are shuffled together
};

/// The quotas of these shards. A shard's add up to its samples, or to 0 where none of its samples has a class. Each
/// class's add up to an equal share of all draws, where the shards allow that, up to one draw for each shard.
ClassQuotas class_quotas(const std::vector<std::int32_t>& classes, std::span<const Range> shards);

/// The balance of samples that are visited in this order.
ClassBalance balance_classes(std::vector<std::int32_t> classes, const OrderSettings& order);

/// Why classes cannot come equally often, with the class that lacks most draws; empty where they can.
std::string unbalanced_text(const ClassQuotas& quotas);

/// As many samples of each class as its quota says: those of a class are taken in the order of ids, again from the
/// start where they are too few; then all are shuffled. The ids themselves where the quotas are all 0.
std::vector<std::int64_t> draw_classes(const std::vector<std::int64_t>& ids, const std::vector<std::int32_t>& classes,
                                       const std::vector<Index>& quotas, std::uint64_t key);

// Boxes of samples that are too large to be trained on whole: of which size, how many, and where.

/// What a model takes of a sample at once.
struct PatchSettings {
  std::vector<Index> size{};  ///< positions along each axis, of whatever resolution; empty: whole samples
  double foreground = 0;      ///< share of the boxes that hold a position of another class than the background
  double overlap = 0.5;       ///< share of a window that its neighbour sees, too, where whole samples are needed
  bool any() const { return !size.empty(); }
  bool operator==(const PatchSettings&) const = default;
};

/// The shape of what a model takes at once of samples of this shape, at their own resolution: no more positions than
/// there are. The sample itself without a size.
Shape patch_of(const PatchSettings& settings, const Shape& sample);

/// How many boxes of each sample an epoch draws: as many as it takes to cover the sample once.
Index patches_of(const PatchSettings& settings, const Shape& sample);

/// Positions of one sample that are foreground, class by class; some of them where they are many.
using Foreground = std::vector<std::vector<Index>>;

/// What a box is drawn of.
struct PatchDraw {
  const PatchSettings& settings;
  Shape sample;                            ///< at the box's resolution
  Extent factor{1, 1, 1};                  ///< positions of the original resolution in one of this
  const Foreground* foreground = nullptr;  ///< positions at the original resolution; null: not asked for
};

/// A box of the patch's size, anywhere with the same chance, or around a position of a class that is drawn first. A
/// function of its arguments: of an epoch's key and the box's number over all samples.
Box draw_patch(const PatchDraw& of, std::uint64_t key, std::int64_t number);

/// The positions of a box at a lower resolution as a box of the original one.
Box at_original(const Box& box, const Extent& factor);

/// Copies the positions of a box out of a sample of elements of so many bytes.
void cut_box(const Shape& sample, Index bytes, const std::byte* from, const Box& box, std::byte* to);

}  // namespace mrmf
