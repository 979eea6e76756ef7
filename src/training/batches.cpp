#include "src/training/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kernels/random.hpp"

namespace mrmf {

namespace {

constexpr std::uint64_t kAugmentation = 0x6175676d;  // apart from other uses of an epoch's key

}  // namespace

Shape with_positions(Shape target, const Extent& positions) {
  target.channels = target.per_sample() / product(positions);
  target.spatial = positions;
  return target;
}

void take_box(ConstTensor from, const Box& box, Span to) {
  const Extent& s = from.shape.spatial;
  const Index channels = from.shape.channels, floats = box.count[2] * channels;
  MRMF_CHECK(contains({.count = s}, box) && std::ssize(to) >= from.shape.n * product(box.count) * channels,
             "positions that are not there");
  float* target = to.data();
  for (Index n = 0; n < from.shape.n; ++n)
    for (Index i = box.first[0]; i < box.end(0); ++i)
      for (Index j = box.first[1]; j < box.end(1); ++j, target += floats)
        std::copy_n(from.data.data() + (((n * s[0] + i) * s[1] + j) * s[2] + box.first[2]) * channels, floats, target);
}

std::uint64_t phase_key(const Phase& phase) {
  return static_cast<std::uint64_t>(phase.stage) * 4 + static_cast<std::uint64_t>(phase.role);
}

std::span<const std::int64_t> ids_of(const EpochOrder& order, const Range& rows) {
  return std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
}

std::span<const Index> shard_rows(const EpochOrder& order, std::size_t k) {
  const std::size_t own = order.shard_rows.size() / order.steps.size();
  return std::span(order.shard_rows).subspan(k * own, own);
}

Range micro_batch_of(const Range& step, int number, int micro_batches) {
  const Range within = piece(step.count, number, micro_batches);
  return {step.first + within.first, within.count};
}

void require_batches(const DataConfig& data, const BatchSource& of, const Phase& phase, int ranks, int micro_batches) {
  const Index samples = of.samples;
  OrderSettings order = order_settings(data, samples, ranks, 0);
  order.batch = phase.batch;
  order.repeats = boxes_of_each(data, of.sample, phase.resolution);
  check(order);
  if (leaves_ranks_idle(order))
    throw ConfigError(
        fmt::format("batch {} brings some ranks no sample in some steps ({} samples in {} shards); use a "
                    "batch of at least {}",
                    phase.batch, samples, order.shards, 2 * (order.shards / order.ranks)));
  const Index least = order.shards / order.ranks * (samples / order.shards * order.repeats / steps_per_epoch(order));
  if (micro_batches > 1 && least < micro_batches)
    throw ConfigError(
        fmt::format("training.accumulate = {}: batch {} brings a rank as few as {} samples in a step of {} "
                    "({} samples on {} rank{}), and each micro-batch needs one; use a smaller training.accumulate",
                    micro_batches, phase.batch, least, phase_text(phase), samples, ranks, ranks == 1 ? "" : "s"));
}

EpochOrder BatchSampler::training(const Phase& phase, int epoch) const {
  return epoch_order(training_settings(phase), seed_, phase_key(phase), static_cast<std::uint64_t>(epoch));
}

EpochOrder BatchSampler::validation(int batch) const {
  return in_micro_batches(epoch_order(validation_settings(batch), seed_, 0, 0));
}

EpochOrder BatchSampler::in_micro_batches(const EpochOrder& order) const {
  if (micro_batches_ == 1) return order;
  EpochOrder split{order.ids, {}, {}, {}, order.key};
  for (const Range& step : order.steps)
    for (int number = 0; number < micro_batches_; ++number)
      split.steps.push_back(micro_batch_of(step, number, micro_batches_));
  return split;
}

std::set<Index> BatchSampler::First::rows() const {
  std::set<Index> sizes;
  for (const Range& step : micro_batches.steps) sizes.insert(step.count);
  for (const Range& step : validation.steps)
    if (step.count > 0) sizes.insert(step.count);
  return sizes;
}

std::set<Index> BatchSampler::First::shard_rows() const {
  std::set<Index> sizes;
  for (const EpochOrder* order : {&training, &validation})
    std::ranges::copy_if(order->shard_rows, std::inserter(sizes, sizes.end()), [](Index rows) { return rows > 0; });
  return sizes;
}

BatchSampler::Shards BatchSampler::shards(const Phase& phase) const {
  const OrderSettings order = training_settings(phase);
  return {order.shards / order.ranks, order.shards, rows_per_shard(order)};
}

BatchSampler::First BatchSampler::first(const Phase& phase) const {
  check(training_settings(phase));
  First first{training(phase, 0), validation(phase.batch), {}};
  first.micro_batches = in_micro_batches(first.training);
  if (std::ranges::any_of(first.micro_batches.steps, [](const Range& rows) { return rows.count == 0; }))
    throw ConfigError(
        fmt::format("batch {} leaves rank {} without samples in some steps{} of {}; use a larger batch or "
                    "fewer ranks{}",
                    phase.batch, team_->rank(), micro_batches_ == 1 ? "" : ", or micro-batches of them,",
                    phase_text(phase), micro_batches_ == 1 ? "" : ", or a smaller training.accumulate"));
  return first;
}

std::vector<std::uint64_t> BatchSampler::capture_keys(const EpochOrder& micro_batches) const {
  constexpr std::uint64_t hash_bits = (std::uint64_t{1} << 40) - 1;  // the sum of the ranks' hashes does not overflow
  std::vector<std::int64_t> hashes;
  for (const Range& rows : micro_batches.steps)
    hashes.push_back(static_cast<std::int64_t>(
        mix(static_cast<std::uint64_t>(team_->rank()), static_cast<std::uint64_t>(rows.count)) & hash_bits));
  team_->sum(hashes);
  std::vector<std::uint64_t> keys;
  for (const std::int64_t hash : hashes) keys.push_back(static_cast<std::uint64_t>(hash) | (std::uint64_t{1} << 63));
  // The first part of a step begins its sums, and the last one ends the step.
  for (std::size_t i = 0; micro_batches_ > 1 && i < keys.size(); ++i) {
    const std::size_t part = i % static_cast<std::size_t>(micro_batches_);
    const std::uint64_t position = part == 0 ? 1 : part + 1 == static_cast<std::size_t>(micro_batches_) ? 2 : 3;
    keys[i] |= position << 60;  // the sums of hashes are smaller
  }
  return keys;
}

OrderSettings BatchSampler::training_settings(const Phase& phase) const {
  const Split& split = data_->train();
  OrderSettings settings = split.order;
  settings.batch = phase.batch;
  settings.repeats = boxes_of_each(data_->config().data, split.shape.sample, phase.resolution);
  return settings;
}

// A validation set may be smaller than the batch, or leave ranks without samples.
OrderSettings BatchSampler::validation_settings(int batch) const {
  OrderSettings settings = data_->validation().order;
  settings.batch = validation_batch(settings, batch);
  return settings;
}

Batches::Batches(Backend& backend, const Split& split, const Extent& resolution, Index most_rows,
                 const SampleBlock* block)
    : split_(&split),
      resolution_(resolution),
      augmenter_(augmenter(split, resolution)),
      outputs_(split.store->target(resolution).per_sample()),
      gathered_(resolution) {
  const SampleStore& store = *split.store;
  const Shape sample = store.sample(resolution), target = store.target(resolution);
  if (block != nullptr) {
    block_ = *block;
    if (const std::optional<Box>& read = split.shape.block)  // what the store has of a sample
      for (std::size_t a = 0; a < 3; ++a) block_->samples.first[a] -= read->first[a] / resolution[a];
    MRMF_CHECK(
        contains({.count = sample.spatial}, block_->samples) && contains({.count = block_->outputs}, block_->labels),
        "a block of positions that were not read");
    // What the store has is copied once more only where the block is a part of it.
    if (augmenter_ || block_->samples.count != sample.spatial)
      samples_.resize(static_cast<std::size_t>(sample.with_rows(most_rows).count()));
    if (augmenter_ || block_->labels.count != block_->outputs)
      labels_.resize(static_cast<std::size_t>(target.with_rows(most_rows).count()));
    outputs_ = product(block->labels.count) * with_positions(target, block_->outputs).channels;
    Shape own = sample.with_rows(most_rows);
    own.spatial = block->samples.count;
    feed_ = backend.feed(own, outputs_);
    return;
  }
  if (store.averages_at_use(resolution) && !augmenter_)
    feed_ = backend.averaging_feed(split.shape.sample.with_rows(most_rows), outputs_, resolution);
  if (feed_) {
    gathered_ = {1, 1, 1};
    return;
  }
  const Range owned = store.owned();
  // A table holds samples as they are, whole.
  if (!augmenter_ && !split.boxes)
    table_ = backend.table({sample.with_rows(owned.count), outputs_, owned.first, most_rows});
  if (table_)
    fill_table(most_rows);
  else
    feed_ = backend.feed(sample.with_rows(most_rows), outputs_);
}

std::optional<Augmenter> Batches::augmenter(const Split& split, const Extent& resolution) {
  if (!split.augment.any()) return {};
  return Augmenter(split.augment, split.store->sample(resolution), split.store->target(resolution), resolution,
                   split.kinds);
}

void Batches::fill_table(Index most_rows) {
  const SampleStore& store = *split_->store;
  const Range owned = store.owned();
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution_).with_rows(most_rows).count()));
  std::vector<float> targets(static_cast<std::size_t>(most_rows * outputs_));
  const EpochOrder order = in_order(owned, most_rows);
  split_->store->expect(resolution_, order);
  for (const Range& step : order.steps) {
    const auto ids =
        std::span(order.ids).subspan(static_cast<std::size_t>(step.first), static_cast<std::size_t>(step.count));
    const Shape samples = store.sample(resolution_).with_rows(step.count);
    const Feed::HostBatch part{Span(x).first(static_cast<std::size_t>(samples.count())),
                               Span(targets).first(static_cast<std::size_t>(step.count * outputs_))};
    gather(ids, part);
    table_->fill(step.first, part);
  }
}

void Batches::gather(std::span<const std::int64_t> ids, const Feed::HostBatch& into) {
  SampleStore& store = *split_->store;
  const auto rows = std::ssize(ids);
  store.gather_samples(gathered_, ids, {store.sample(gathered_).with_rows(rows), into.x});
  store.gather_labels(resolution_, ids, into.targets);
}

void Batches::expect(const EpochOrder& order) {
  key_ = mix(order.key, kAugmentation);
  if (!table_) split_->store->expect(resolution_, order);
}

// Flips and turns are of whole samples, as without a grid.
void Batches::gather_block(std::span<const std::int64_t> ids, const Feed::HostBatch& into) {
  const auto rows = std::ssize(ids);
  const Shape sample = split_->store->sample(resolution_).with_rows(rows),
              target = split_->store->target(resolution_).with_rows(rows);
  const bool cut_samples = !samples_.empty(), cut_labels = !labels_.empty();
  const Feed::HostBatch whole{
      cut_samples ? Span(samples_).first(static_cast<std::size_t>(sample.count())) : into.x,
      cut_labels ? Span(labels_).first(static_cast<std::size_t>(target.count())) : into.targets};
  gather(ids, whole);
  if (augmenter_) augmenter_->change(key_, ids, whole.x, whole.targets);
  if (cut_samples) take_box({sample, whole.x}, block_->samples, into.x);
  if (cut_labels) take_box({with_positions(target, block_->outputs), whole.targets}, block_->labels, into.targets);
}

void Batches::load(std::span<const std::int64_t> ids) {
  if (table_ || ids.empty()) return;
  const Feed::HostBatch into = feed_->host(std::ssize(ids));
  if (block_) {
    gather_block(ids, into);
  } else {
    gather(ids, into);
    if (augmenter_) augmenter_->change(key_, ids, into.x, into.targets);
  }
  loaded_ = feed_->submit(std::ssize(ids));
}

Feed::Batch Batches::batch(const StepContext& step) { return table_ ? table_->gather(step) : loaded_; }

}  // namespace mrmf
