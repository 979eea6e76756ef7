#include "src/training/training_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mrmf {
namespace {

// Floats in a part of the gradients that is summed beside backward. Large enough that a sum's latency is small compared
// with its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

GradientSums gradient_sums(PhaseContext& run, const StepContext& step) {
  AllReduce* const ranks =
      run.worker_sums ? static_cast<AllReduce*>(run.worker_sums.get()) : run.session.all_reduce.get();
  Index bucket = run.backend().synchronous() ? kHostBucket : kDeviceBucket;
  if (run.worker_sums) bucket = std::max(bucket, run.worker_sums->bucket());
  return {ranks, run.grid != nullptr ? run.grid->over_same_block() : nullptr, bucket,
          run.sharded ? run.sharded->bind(step) : nullptr};
}

// Adds a micro-batch's gradients and loss to those of the ones before it, and the step's to those of the other ranks.
// Backward overwrites gradients, so the sum is kept outside of the model until the last micro-batch.
void accumulate(PhaseContext& run, const StepContext& step, int micro_batch) {
  Backend& backend = run.backend();
  Model& model = run.model();
  const bool last = micro_batch + 1 == run.session.config.accumulate;
  if (micro_batch == 0) return backend.swap(model.reduce_buffer(), run.summed.span());
  if (!last) return backend.accumulate(model.reduce_buffer(), run.summed.span());
  backend.accumulate(run.summed.span(), model.reduce_buffer());
  model.all_reduce_gradients(gradient_sums(run, step));
}

// Where weights are cut, each rank of a group counts its own.
void clip_gradients(PhaseContext& run) {
  Model& model = run.model();
  const auto most = static_cast<float>(run.session.config.clip_norm);
  if (model.layout().partitioned().empty()) return run.clip->run(model.grads(), most);
  std::vector<Span> counted;
  for (const ArenaSpan& span : model.layout().counted()) counted.push_back(span_at(model.grads(), span));
  run.clip->run_over(model.grads(), most, counted, *run.grid->over_sample_group());
}

// The network's output, the loss, and its gradient.
void forward(PhaseContext& run, const StepContext& step, const Feed::Batch& batch) {
  Model& model = run.model();
  const ConstTensor y = model.forward(step, batch.x);
  if (model.has_terms()) return;  // backward computes the terms of a network of several parts
  run.objective.run(step, y, batch.targets, model.output_gradient(std::ssize(step.ids)), model.loss());
}

// The gradients, in the end summed over the ranks; where ranks update pieces, the updated parameters as well.
void backward(PhaseContext& run, const StepContext& step, const Feed::Batch& batch, int micro_batch) {
  const bool single = run.session.config.accumulate == 1;
  run.model().backward(step, batch.x, single ? gradient_sums(run, step) : GradientSums{});
  if (!single) accumulate(run, step, micro_batch);
}

void train_replicas(PhaseContext& run, const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch) {
  using Summed = ShardReplicas::Summed;
  run.replicas->train(step, rows, batch, run.worker_sums ? Summed::scalars : Summed::all);
  if (run.worker_sums) run.worker_sums->sum(run.replicas->gradients());
}

void optimizer_step(PhaseContext& run, const StepContext& step, const PartUpdates::StepPosition& position,
                    const PartUpdates::Factors& factors) {
  Model& model = run.model();
  if (run.parts) run.parts->clear_others(run.backend(), step, model.grads());
  if (run.clip) clip_gradients(run);
  if (run.parts)
    run.parts->update(run.model_state, step, position, factors);
  else if (run.worker_sums && run.worker_sums->adds_directions())
    run.worker_sums->move();
  else if (!run.sharded)
    run.model_state.update(step);
  model.constrain(run.model_state.optimizer.steps());
}

PartUpdates::StepPosition position_of(const EpochSteps& epoch, std::size_t k) {
  return {epoch.number, static_cast<Index>(k), static_cast<Index>(epoch.count())};
}

// The last micro-batch updates the parameters and keeps the loss.
void train_micro_batch(PhaseContext& run, const EpochSteps& epoch, std::size_t k, int micro_batch, TrainState& state) {
  const int micro_batches = run.session.config.accumulate;
  const bool last = micro_batch + 1 == micro_batches;
  StepContext step = micro_batch_step(run, epoch, k, micro_batch);
  run.load(run.batches.training, step.ids);
  const Timer timer;
  if (last) run.model_state.optimizer.advance(epoch.learning_rate(k), step);
  if (last && run.worker_sums) {
    run.worker_sums->begin(step, worker_rows(run, epoch.order, k), epoch.order.global_rows[k]);
    step.lion.gain = run.worker_sums->gain();
  }
  run.backend().begin(step);
  const auto key = k * static_cast<std::size_t>(micro_batches) + static_cast<std::size_t>(micro_batch);
  run.backend().run_captured(run.capture_keys[key], [&] {
    const Feed::Batch batch = run.batches.training.batch(step);
    if (run.parts) step.labels = batch.targets;
    if (run.replicas) {
      train_replicas(run, step, shard_rows(epoch.order, k), batch);
    } else {
      forward(run, step, batch);
      backward(run, step, batch, micro_batch);
    }
    if (!last) return;
    optimizer_step(run, step, position_of(epoch, k), {epoch.learning_rate(k), state.tournament.weight_decay});
    run.backend().append_history(step, run.model().loss(), run.losses.span());
  });
  if (last && run.parts)
    add_terms(run.model().network().parts(), step, run.model().term_losses(), epoch.order.global_rows[k], state);
  if (last && run.worker_sums) run.worker_sums->end_step();
  run.trained_rows += std::ssize(step.ids);
  run.session.clock.time().compute += timer.seconds();
}

}  // namespace

void training_step(PhaseContext& run, const EpochSteps& epoch, std::size_t k, TrainState& state) {
  for (int micro_batch = 0; micro_batch < run.session.config.accumulate; ++micro_batch)
    train_micro_batch(run, epoch, k, micro_batch, state);
}

StepContext micro_batch_step(const PhaseContext& run, const EpochSteps& epoch, std::size_t k, int micro_batch) {
  const TrainingConfig& config = run.session.config;
  StepContext step{.training = true,
                   .seed = mix(config.seed, phase_key(run.phase)),
                   .updates_done = run.model_state.optimizer.steps(),
                   .ids = ids_of(epoch.order, micro_batch_of(epoch.order.steps[k], micro_batch, config.accumulate)),
                   .team_sum = config.global_batch_norm ? run.session.all_reduce.get() : nullptr,
                   .batch_index = static_cast<Index>(k),
                   .loss_weight = 1.0F / static_cast<float>(epoch.order.global_rows[k]),
                   .dropout_factor = run.dropout_factor};
  if (run.parts) step.turn = run.parts->turn(position_of(epoch, k));
  run.add_grid(step);
  return step;
}

double sum_losses(PhaseContext& run, const EpochSteps& epoch, std::size_t first, std::size_t last) {
  const Timer timer;
  const std::vector<float> losses = run.read_losses(first, last);
  run.session.clock.time().compute += timer.seconds();
  double sum = 0;
  for (std::size_t k = first; k < last; ++k) {
    const float loss = losses[k - first];
    if (!std::isfinite(loss) && !run.meets_again)
      throw DivergedError(
          fmt::format("the training loss is {} in {}, epoch {}, step {} of {}; lower the learning rate "
                      "({:g} there) or look for extreme values in the data",
                      std::isnan(loss) ? "nan" : "inf", phase_text(run.phase), epoch.number + 1, k + 1, epoch.count(),
                      epoch.learning_rate(k)));
    sum += loss;
  }
  return sum;
}

}  // namespace mrmf
