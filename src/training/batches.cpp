#include "src/training/batches.hpp"

namespace mrmf {

Batches::Batches(Backend& backend, const Split& split, const Extent& resolution, Index most_rows)
    : split_(&split), resolution_(resolution), gathered_(resolution) {
  const SampleStore& store = *split.store;
  const Shape sample = store.sample(resolution);
  if (store.averages_at_use(resolution))
    feed_ = backend.averaging_feed(split.shape.sample.rows(most_rows), store.outputs(), resolution);
  if (feed_) {
    gathered_ = {1, 1, 1};
    return;
  }
  const Range owned = store.owned();
  table_ = backend.table({sample.rows(owned.count), store.outputs(), owned.first, most_rows});
  if (table_)
    fill_table(most_rows);
  else
    feed_ = backend.feed(sample.rows(most_rows), store.outputs());
}

void Batches::fill_table(Index most_rows) {
  const SampleStore& store = *split_->store;
  const Range owned = store.owned();
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution_).rows(most_rows).count()));
  std::vector<float> targets(static_cast<std::size_t>(most_rows * store.outputs()));
  const EpochOrder order = in_order(owned, most_rows);
  split_->store->expect(resolution_, order);
  for (const Range& step : order.steps) {
    const auto ids =
        std::span(order.ids).subspan(static_cast<std::size_t>(step.first), static_cast<std::size_t>(step.count));
    const Shape samples = store.sample(resolution_).rows(step.count);
    const Feed::HostBatch part{Span(x).first(static_cast<std::size_t>(samples.count())),
                               Span(targets).first(static_cast<std::size_t>(step.count * store.outputs()))};
    gather(ids, part);
    table_->fill(step.first, part);
  }
}

void Batches::gather(std::span<const std::int64_t> ids, const Feed::HostBatch& into) {
  SampleStore& store = *split_->store;
  const auto rows = std::ssize(ids);
  store.gather(gathered_, ids, {store.sample(gathered_).rows(rows), into.x},
               {Shape{.n = rows, .channels = store.outputs()}, into.targets});
}

void Batches::expect(const EpochOrder& order) {
  if (!table_) split_->store->expect(resolution_, order);
}

void Batches::load(std::span<const std::int64_t> ids) {
  if (table_ || ids.empty()) return;
  gather(ids, feed_->host(std::ssize(ids)));
  loaded_ = feed_->submit(std::ssize(ids));
}

Feed::Batch Batches::batch(const Step& step) { return table_ ? table_->gather(step) : loaded_; }

}  // namespace mrmf
