// Validation: a model's loss and metric on the validation data, after batch norms' statistics were taken anew
// (training.precise_batch_norm). Declared in training_loop.hpp.
#include <algorithm>
#include <functional>

#include "kernels/errors.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

// The running averages of one batch alone, by a forward in training.
void forward_in_training(PhaseContext& context, const EpochSteps& epoch, std::size_t k, const StepContext& step) {
  context.backend().begin(step);
  const Feed::Batch batch = context.batches.training.batch(step);
  if (context.replicas)
    context.replicas->recalibrate(step, shard_rows(epoch.order, k), batch);
  else
    context.model().forward(step, batch.x);
}

Index take_statistics(PhaseContext& context, const EpochSteps& epoch, int batches) {
  PreciseBatchNorm precise(context.backend(), context.model(), context.model_state.network_settings.layers);
  if (batches == 0 || !precise.any()) return 0;
  EpochOrder order = epoch.order;
  order.steps.resize(std::min(order.steps.size(), static_cast<std::size_t>(batches)));
  context.batches.training.expect(context.session.sampler.in_micro_batches(order));
  for (std::size_t k = 0; k < order.steps.size(); ++k)
    for (int micro_batch = 0; micro_batch < context.session.config.accumulate; ++micro_batch) {
      const StepContext step = micro_batch_step(context, epoch, k, micro_batch);
      context.load(context.batches.training, step.ids);
      const Timer timer;
      precise.before();
      forward_in_training(context, epoch, k, step);
      precise.after();
      context.session.clock.time().compute += timer.seconds();
    }
  precise.finish();
  return epoch.rows(0, order.steps.size());
}

}  // namespace

Index recalibrate_batch_norms(PhaseContext& context, const EpochSteps& epoch, int batches) {
  const Index rows = take_statistics(context, epoch, batches);
  if (!context.local_statistics()) return rows;
  const Timer timer;
  average_state(context.backend(), context.model(), context.session.ctx.team);
  context.session.clock.time().communication += timer.seconds();
  return rows;
}

PreciseBatchNorm::PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers)
    : backend_(backend), model_(model), momenta_(model.state().size()), sums_(momenta_.size()), read_(momenta_.size()) {
  const std::vector<LayerEntry>& entries = model.network().entries();
  MRMF_CHECK(entries.size() == layers.size(), "another network's layers");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto first = momenta_.begin() + entries[i].state.first;
    std::fill(first, first + entries[i].state.count, layers[i].momentum);
  }
}

bool PreciseBatchNorm::any() const { return !momenta_.empty(); }

// From zero, a running average becomes momentum * the batch's own statistics.
void PreciseBatchNorm::before() { backend_.fill(model_.state(), 0); }

void PreciseBatchNorm::after() {
  backend_.read(model_.state(), read_);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (momenta_[i] > 0) sums_[i] += read_[i] / momenta_[i];
  ++batches_;
}

void PreciseBatchNorm::finish() {
  MRMF_CHECK(batches_ > 0, "statistics of no batch");
  for (std::size_t i = 0; i < sums_.size(); ++i) read_[i] = static_cast<float>(sums_[i] / batches_);
  backend_.write(read_, model_.state());
}

namespace {

// The sum of the losses over the ranks, and that of the metric's sums.
double sum_over_ranks(PhaseContext& context, double loss) {
  EpochTime& time = context.session.clock.time();
  Comm& team = context.session.ctx.team;
  const Timer timer;
  loss = team.sum(loss);
  if (context.objective.measures()) context.objective.sums().sum(team);
  time.communication += timer.seconds();
  return loss;
}

// Calls `gather`; its error is that of all ranks that share the sample, which wait for each other in what follows.
void gather_shared(const PhaseContext& context, const std::function<void()>& gather) {
  if (context.grid == nullptr || !context.session.ctx.data.streams()) return gather();
  collective_try(context.grid->sample_group(), gather);
}

// Whole samples, window by window. A rank that cannot read them stops all. Of the ranks that share a sample the first
// one counts it.
double score_windows(PhaseContext& context, SampleStore& store, std::span<const std::int64_t> ids) {
  EpochTime& time = context.session.clock.time();
  const Extent& resolution = context.phase.resolution;
  const bool counts = context.grid == nullptr || context.grid->block() == 0;
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution).per_sample()));
  std::vector<float> targets(static_cast<std::size_t>(store.target(resolution).per_sample()));
  StepContext step{.training = false};
  context.add_grid(step);
  double loss = 0;
  Timer timer;
  collective_try(context.session.ctx.team, [&] {
    for (const std::int64_t& id : ids) {
      gather_shared(context, [&] {
        store.gather(resolution, {&id, 1}, {store.sample(resolution).with_rows(1), x},
                     {store.target(resolution).with_rows(1), targets});
      });
      time.io += timer.lap();
      const ConstSpan outputs = context.windowed->run(
          x, step, [&](const StepContext& of, ConstTensor part) { return context.model().forward(of, part); });
      if (counts) {
        loss += context.windowed->loss(outputs, targets);
        context.objective.add(outputs, targets);
      }
      time.compute += timer.lap();
    }
  });
  return sum_over_ranks(context, loss);
}

// Counts one batch of this rank, that of step k; `index` is where its loss is kept.
void score_batch(PhaseContext& context, const ScoredRows& rows, std::size_t k, Index index) {
  Model& model = context.model();
  const EpochOrder& order = rows.order;
  StepContext step{.training = false, .ids = ids_of(order, order.steps[k]), .batch_index = index};
  context.add_grid(step);
  context.backend().begin(step);
  context.backend().run_captured(static_cast<std::uint64_t>(order.steps[k].count), [&] {
    const Feed::Batch batch = rows.batches->batch(step);
    if (context.replicas) return context.replicas->evaluate(step, shard_rows(order, k), batch);
    const ConstTensor y = model.forward(step, batch.x);
    context.objective.run(step, y, batch.targets, {}, model.loss());
    context.backend().append_history(step, model.loss(), context.losses.span());
  });
  if (!context.replicas) context.objective.add(model, *rows.split.store, step.ids);
}

// The sum of the losses of all ranks' batches. This rank has kept so many.
double sum_over_team(PhaseContext& context, std::size_t batches) {
  EpochTime& time = context.session.clock.time();
  Timer timer;
  double loss = 0;
  if (!context.replicas)
    for (const float one : context.read_losses(0, batches)) loss += one;
  time.compute += timer.lap();
  if (!context.replicas) return sum_over_ranks(context, loss);
  loss = context.replicas->take_loss();
  if (context.objective.measures()) context.replicas->take_metrics(context.objective.sums());
  time.communication += timer.lap();
  return loss;
}

}  // namespace

double score_rows(PhaseContext& context, const ScoredRows& rows, const Range& steps) {
  context.objective.begin();
  const auto first = static_cast<std::size_t>(steps.first), end = static_cast<std::size_t>(steps.first + steps.count);
  if (context.windowed) {
    Range ids = steps.count > 0 ? rows.order.steps[first] : Range{};
    for (std::size_t k = first + 1; k < end; ++k) ids.count += rows.order.steps[k].count;
    return score_windows(context, *rows.split.store, ids_of(rows.order, ids));
  }
  Index batches = 0;
  for (std::size_t k = first; k < end; ++k) {
    context.load(*rows.batches, ids_of(rows.order, rows.order.steps[k]));
    if (rows.order.steps[k].count == 0) continue;
    const Timer timer;
    score_batch(context, rows, k, batches++);
    context.session.clock.time().compute += timer.seconds();
  }
  return sum_over_team(context, static_cast<std::size_t>(batches));
}

Index scored_rows(const PhaseContext& context, const Split& split) {
  return split.shape.samples * (context.windowed ? context.windowed->windows() : 1);
}

Validation validate(PhaseContext& context) {
  const Split& split = context.session.ctx.data.validation();
  const EpochOrder order =
      context.windowed ? context.expect_whole() : context.session.sampler.validation(context.phase.batch);
  Batches* const batches = context.batches.validation ? &*context.batches.validation : nullptr;
  const double loss = score_rows(context, {batches, split, order}, {0, std::ssize(order.steps)});
  if (split.labelled == 0) return {{}, context.objective.metric()};
  return {loss / static_cast<double>(split.labelled), context.objective.metric()};
}

}  // namespace mrmf
