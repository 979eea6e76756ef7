#include "src/training/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mrmf {
namespace {

// Floats in a part of the gradients that is summed beside backward. Large enough that a sum's latency is small compared
// with its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

GradientSums gradient_sums(PhaseContext& context, const StepContext& step) {
  AllReduce* const ranks =
      context.worker_sums ? static_cast<AllReduce*>(context.worker_sums.get()) : context.session.all_reduce.get();
  Index bucket = context.backend().synchronous() ? kHostBucket : kDeviceBucket;
  if (context.worker_sums) bucket = std::max(bucket, context.worker_sums->bucket());
  return {ranks, context.grid != nullptr ? context.grid->over_same_block() : nullptr, bucket,
          context.sharded ? context.sharded->bind(step) : nullptr};
}

// Adds a micro-batch's gradients and loss to those of the ones before it, and the step's to those of the other ranks.
// Backward overwrites gradients, so the sum is kept outside of the model until the last micro-batch. The first one's
// gradients become the sum without a copy.
void add_micro_batch(PhaseContext& context, const StepContext& step, int micro_batch) {
  Backend& backend = context.backend();
  Model& model = context.model();
  const bool last = micro_batch + 1 == context.session.config.accumulate;
  if (micro_batch == 0) return backend.swap(model.reduce_buffer(), context.summed.span());
  if (!last) return backend.accumulate(model.reduce_buffer(), context.summed.span());
  backend.accumulate(context.summed.span(), model.reduce_buffer());
  model.all_reduce_gradients(gradient_sums(context, step));
}

// Where weights are cut, each rank of a group counts its own.
void clip_gradients(PhaseContext& context) {
  Model& model = context.model();
  const auto most = static_cast<float>(context.session.config.clip_norm);
  if (model.layout().partitioned().empty()) return context.clip->run(model.grads(), most);
  std::vector<Span> counted;
  for (const ArenaSpan& span : model.layout().counted()) counted.push_back(span_at(model.grads(), span));
  context.clip->run_over(model.grads(), most, counted, *context.grid->over_sample_group());
}

// The network's output, the loss, and its gradient.
void forward(PhaseContext& context, const StepContext& step, const Feed::Batch& batch) {
  Model& model = context.model();
  const ConstTensor y = model.forward(step, batch.x);
  if (model.has_terms()) return;  // backward computes the terms of a network of several parts
  context.objective.run(step, y, batch.targets, model.output_gradient(std::ssize(step.ids)), model.loss());
}

// The gradients, in the end summed over the ranks; where ranks update pieces, the updated parameters as well.
void backward(PhaseContext& context, const StepContext& step, const Feed::Batch& batch, int micro_batch) {
  const bool single = context.session.config.accumulate == 1;
  context.model().backward(step, batch.x, single ? gradient_sums(context, step) : GradientSums{});
  if (!single) add_micro_batch(context, step, micro_batch);
}

void train_replicas(PhaseContext& context, const StepContext& step, std::span<const Index> rows,
                    const Feed::Batch& batch) {
  using Summed = ShardReplicas::Summed;
  context.replicas->train(step, rows, batch, context.worker_sums ? Summed::scalars : Summed::all);
  if (context.worker_sums) context.worker_sums->sum(context.replicas->gradients());
}

void optimizer_step(PhaseContext& context, const StepContext& step, const PartUpdates::StepPosition& position,
                    const PartUpdates::Factors& factors) {
  Model& model = context.model();
  if (context.parts) context.parts->clear_others(context.backend(), step, model.grads());
  if (context.clip) clip_gradients(context);
  if (context.parts)
    context.parts->update(context.model_state, step, position, factors);
  else if (context.worker_sums && context.worker_sums->adds_directions())
    context.worker_sums->move();
  else if (!context.sharded)
    context.model_state.update(step);
  model.constrain(context.model_state.optimizer.steps());
}

PartUpdates::StepPosition position_of(const EpochSteps& epoch, std::size_t k) {
  return {epoch.number, static_cast<Index>(k), static_cast<Index>(epoch.count())};
}

// The last micro-batch updates the parameters and keeps the loss.
void train_micro_batch(PhaseContext& context, const EpochSteps& epoch, std::size_t k, int micro_batch,
                       TrainState& state) {
  const int micro_batches = context.session.config.accumulate;
  const bool last = micro_batch + 1 == micro_batches;
  StepContext step = micro_batch_step(context, epoch, k, micro_batch);
  context.load(context.batches.training, step.ids);
  const Timer timer;
  if (last) context.model_state.optimizer.advance(epoch.learning_rate(k), step);
  if (last && context.worker_sums) {
    context.worker_sums->begin(step, worker_rows(context, epoch.order, k), epoch.order.global_rows[k]);
    step.lion.gain = context.worker_sums->gain();
  }
  context.backend().begin(step);
  const auto key = k * static_cast<std::size_t>(micro_batches) + static_cast<std::size_t>(micro_batch);
  context.backend().run_captured(context.capture_keys[key], [&] {
    const Feed::Batch batch = context.batches.training.batch(step);
    if (context.parts) step.labels = batch.targets;
    if (context.replicas) {
      train_replicas(context, step, shard_rows(epoch.order, k), batch);
    } else {
      forward(context, step, batch);
      backward(context, step, batch, micro_batch);
    }
    if (!last) return;
    optimizer_step(context, step, position_of(epoch, k), {epoch.learning_rate(k), state.tournament.weight_decay});
    context.backend().append_history(step, context.model().loss(), context.losses.span());
  });
  if (last && context.parts)
    add_terms(context.model().network().parts(), step, context.model().term_losses(), epoch.order.global_rows[k],
              state);
  if (last && context.worker_sums) context.worker_sums->end_step();
  context.trained_rows += std::ssize(step.ids);
  context.session.clock.time().compute += timer.seconds();
}

}  // namespace

void training_step(PhaseContext& context, const EpochSteps& epoch, std::size_t k, TrainState& state) {
  for (int micro_batch = 0; micro_batch < context.session.config.accumulate; ++micro_batch)
    train_micro_batch(context, epoch, k, micro_batch, state);
}

StepContext micro_batch_step(const PhaseContext& context, const EpochSteps& epoch, std::size_t k, int micro_batch) {
  const TrainingConfig& config = context.session.config;
  StepContext step{.training = true,
                   .seed = mix(config.seed, phase_key(context.phase)),
                   .updates_done = context.model_state.optimizer.steps(),
                   .ids = ids_of(epoch.order, micro_batch_of(epoch.order.steps[k], micro_batch, config.accumulate)),
                   .team_sum = config.global_batch_norm ? context.session.all_reduce.get() : nullptr,
                   .batch_index = static_cast<Index>(k),
                   .loss_weight = 1.0F / static_cast<float>(epoch.order.global_rows[k]),
                   .dropout_factor = context.dropout_factor};
  if (context.parts) step.turn = context.parts->turn(position_of(epoch, k));
  context.add_grid(step);
  return step;
}

double sum_losses(PhaseContext& context, const EpochSteps& epoch, std::size_t first, std::size_t last) {
  const Timer timer;
  const std::vector<float> losses = context.read_losses(first, last);
  context.session.clock.time().compute += timer.seconds();
  double sum = 0;
  for (std::size_t k = first; k < last; ++k) {
    const float loss = losses[k - first];
    if (!std::isfinite(loss) && !context.meets_again)
      throw DivergedError(
          fmt::format("the training loss is {} in {}, epoch {}, step {} of {}; lower the learning rate "
                      "({:g} there) or look for extreme values in the data",
                      std::isnan(loss) ? "nan" : "inf", phase_text(context.phase), epoch.number + 1, k + 1,
                      epoch.count(), epoch.learning_rate(k)));
    sum += loss;
  }
  return sum;
}

}  // namespace mrmf
