#include "src/training/validation.hpp"

#include <functional>

namespace mrmf {
namespace {

// The sum of the losses over the ranks, and that of the metric's sums.
double sum_over_ranks(PhaseContext& run, double loss) {
  EpochTime& time = run.session.clock.time();
  Comm& team = run.session.ctx.team;
  const Timer timer;
  loss = team.sum(loss);
  if (run.objective.measures()) run.objective.sums().sum(team);
  time.communication += timer.seconds();
  return loss;
}

// Calls `gather`; its error is that of all ranks that share the sample, which wait for each other in what follows.
void gather_shared(const PhaseContext& run, const std::function<void()>& gather) {
  if (run.grid == nullptr || !run.session.ctx.data.streams()) return gather();
  collective_try(run.grid->sample_group(), gather);
}

// Whole samples, window by window. A rank that cannot read them stops all. Of the ranks that share a sample the first
// one counts it.
double score_windows(PhaseContext& run, SampleStore& store, std::span<const std::int64_t> ids) {
  EpochTime& time = run.session.clock.time();
  const Extent& resolution = run.phase.resolution;
  const bool counts = run.grid == nullptr || run.grid->block() == 0;
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution).per_sample()));
  std::vector<float> targets(static_cast<std::size_t>(store.target(resolution).per_sample()));
  StepContext step{.training = false};
  run.add_grid(step);
  double loss = 0;
  Timer timer;
  collective_try(run.session.ctx.team, [&] {
    for (const std::int64_t& id : ids) {
      gather_shared(run, [&] {
        store.gather(resolution, {&id, 1}, {store.sample(resolution).with_rows(1), x},
                     {store.target(resolution).with_rows(1), targets});
      });
      time.io += timer.lap();
      const ConstSpan outputs = run.windowed->run(
          x, step, [&](const StepContext& of, ConstTensor part) { return run.model().forward(of, part); });
      if (counts) {
        loss += run.windowed->loss(outputs, targets);
        run.objective.add(outputs, targets);
      }
      time.compute += timer.lap();
    }
  });
  return sum_over_ranks(run, loss);
}

// Counts one batch of this rank, that of step k; `index` is where its loss is kept.
void score_batch(PhaseContext& run, const ScoredRows& rows, std::size_t k, Index index) {
  Model& model = run.model();
  const EpochOrder& order = rows.order;
  StepContext step{.training = false, .ids = ids_of(order, order.steps[k]), .batch_index = index};
  run.add_grid(step);
  run.backend().begin(step);
  run.backend().run_captured(static_cast<std::uint64_t>(order.steps[k].count), [&] {
    const Feed::Batch batch = rows.batches->batch(step);
    if (run.replicas) return run.replicas->evaluate(step, shard_rows(order, k), batch);
    const ConstTensor y = model.forward(step, batch.x);
    run.objective.run(step, y, batch.targets, {}, model.loss());
    run.backend().append_history(step, model.loss(), run.losses.span());
  });
  if (!run.replicas) run.objective.add(model, *rows.split.store, step.ids);
}

// The sum of the losses of all ranks' batches. This rank has kept so many.
double sum_over_team(PhaseContext& run, std::size_t batches) {
  EpochTime& time = run.session.clock.time();
  Timer timer;
  double loss = 0;
  if (!run.replicas)
    for (const float one : run.read_losses(0, batches)) loss += one;
  time.compute += timer.lap();
  if (!run.replicas) return sum_over_ranks(run, loss);
  loss = run.replicas->take_loss();
  if (run.objective.measures()) run.replicas->take_metrics(run.objective.sums());
  time.communication += timer.lap();
  return loss;
}

}  // namespace

double score_rows(PhaseContext& run, const ScoredRows& rows, const Range& steps) {
  run.objective.begin();
  const auto first = static_cast<std::size_t>(steps.first), end = static_cast<std::size_t>(steps.first + steps.count);
  if (run.windowed) {
    Range ids = steps.count > 0 ? rows.order.steps[first] : Range{};
    for (std::size_t k = first + 1; k < end; ++k) ids.count += rows.order.steps[k].count;
    return score_windows(run, *rows.split.store, ids_of(rows.order, ids));
  }
  Index batches = 0;
  for (std::size_t k = first; k < end; ++k) {
    run.load(*rows.batches, ids_of(rows.order, rows.order.steps[k]));
    if (rows.order.steps[k].count == 0) continue;
    const Timer timer;
    score_batch(run, rows, k, batches++);
    run.session.clock.time().compute += timer.seconds();
  }
  return sum_over_team(run, static_cast<std::size_t>(batches));
}

Index scored_rows(const PhaseContext& run, const Split& split) {
  return split.shape.samples * (run.windowed ? run.windowed->windows() : 1);
}

Validation validate(PhaseContext& run) {
  const Split& split = run.session.ctx.data.validation();
  const EpochOrder order = run.windowed ? run.expect_whole() : run.session.sampler.validation(run.phase.batch);
  Batches* const batches = run.batches.validation ? &*run.batches.validation : nullptr;
  const double loss = score_rows(run, {batches, split, order}, {0, std::ssize(order.steps)});
  if (split.labelled == 0) return {{}, run.objective.metric()};
  return {loss / static_cast<double>(split.labelled), run.objective.metric()};
}

}  // namespace mrmf
