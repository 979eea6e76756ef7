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
    const Feed::Batch batch = run.batches.validation.batch(step);
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

}  // namespace

Validation validate(PhaseRun& run) {
  run.objective.begin();
  const EpochOrder order = run.session.sampler.validation(run.phase.batch);
  Index batches = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    run.load(run.batches.validation, ids_of(order, order.steps[k]));
    if (order.steps[k].count == 0) continue;
    const Timer timer;
    validate_batch(run, order, k, batches++);
    run.session.clock.time().compute += timer.seconds();
  }
  const double loss = sum_over_team(run, static_cast<std::size_t>(batches));
  const Index labelled = run.session.ctx.data.validation().labelled;
  if (labelled == 0) return {{}, run.objective.metric()};
  return {loss / static_cast<double>(labelled), run.objective.metric()};
}

}  // namespace mrmf
