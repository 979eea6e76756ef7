#include "src/training/validation.hpp"

namespace mrmf {
namespace {

// Counts one batch of this rank, the one of step k in the epoch's order; `index` is where its loss is kept.
void validate_batch(PhaseRun& run, const EpochOrder& order, std::size_t k, Index index) {
  Model& model = run.model();
  Step step{.training = false, .ids = ids_of(order, order.steps[k]), .index = index};
  run.add_grid(step);
  run.backend().begin(step);
  run.backend().run(static_cast<std::uint64_t>(order.steps[k].count), [&] {
    const Feed::Batch batch = run.batches.validation->batch(step);
    if (run.replicas) return run.replicas->evaluate(step, shard_rows(order, k), batch);
    const ConstTensor y = model.forward(step, batch.x);
    run.objective.run(step, y, batch.targets, {}, model.loss());
    run.backend().keep(step, model.loss(), run.losses.span());
  });
  if (!run.replicas) run.objective.add(model, *run.session.ctx.data.validation().store, step.ids);
}

// The sum of the losses of all ranks' batches. This rank has kept so many.
double sum_over_team(PhaseRun& run, std::size_t batches) {
  EpochTime& time = run.session.clock.time();
  Comm& team = run.session.ctx.team;
  Timer timer;
  double loss = 0;
  if (!run.replicas)
    for (const float one : run.read_losses(0, batches)) loss += one;
  time.compute += timer.lap();
  loss = run.replicas ? run.replicas->take_loss() : team.sum(loss);
  if (run.objective.measures())
    run.replicas ? run.replicas->take_metrics(run.objective.sums()) : run.objective.sums().sum(team);
  time.communication += timer.lap();
  return loss;
}

// The sum of this rank's losses of whole samples, window by window. A rank that cannot read them stops all.
double validate_windows(PhaseRun& run) {
  EpochTime& time = run.session.clock.time();
  SampleStore& store = *run.session.ctx.data.validation().store;
  const Extent& resolution = run.phase.resolution;
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution).per_sample()));
  std::vector<float> targets(static_cast<std::size_t>(store.target(resolution).per_sample()));
  double loss = 0;
  Timer timer;
  collective_try(run.session.ctx.team, [&] {
    for (const std::int64_t id : run.expect_whole().ids) {
      store.gather(resolution, {&id, 1}, {store.sample(resolution).rows(1), x},
                   {store.target(resolution).rows(1), targets});
      time.io += timer.lap();
      const ConstSpan outputs = run.windowed->run(x);
      loss += run.windowed->loss(outputs, targets);
      run.objective.add(outputs, targets);
      time.compute += timer.lap();
    }
  });
  loss = run.session.ctx.team.sum(loss);
  if (run.objective.measures()) run.objective.sums().sum(run.session.ctx.team);
  time.communication += timer.lap();
  return loss;
}

// The same of batches of samples, over all ranks.
double validate_batches(PhaseRun& run) {
  const EpochOrder order = run.session.sampler.validation(run.phase.batch);
  Index batches = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    run.load(*run.batches.validation, ids_of(order, order.steps[k]));
    if (order.steps[k].count == 0) continue;
    const Timer timer;
    validate_batch(run, order, k, batches++);
    run.session.clock.time().compute += timer.seconds();
  }
  return sum_over_team(run, static_cast<std::size_t>(batches));
}

}  // namespace

Index validated_rows(const PhaseRun& run) {
  return run.session.ctx.data.validation().shape.samples * (run.windowed ? run.windowed->windows() : 1);
}

Validation validate(PhaseRun& run) {
  run.objective.begin();
  const double loss = run.windowed ? validate_windows(run) : validate_batches(run);
  const Index labelled = run.session.ctx.data.validation().labelled;
  if (labelled == 0) return {{}, run.objective.metric()};
  return {loss / static_cast<double>(labelled), run.objective.metric()};
}

}  // namespace mrmf
