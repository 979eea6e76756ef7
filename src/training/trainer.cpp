#include "src/training/trainer.hpp"

#include <limits>
#include <utility>

#include "mpi/agreement.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kLookEvery = 64;
// Floats of a part of the gradients that is summed beside backward: long enough that a sum's latency is small beside
// its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

}  // namespace

Trainer::Trainer(const Workplace& workplace, const TrainingConfig& config, double elapsed)
    : at_(workplace),
      config_(config),
      orders_(workplace.data, workplace.team, config.seed),
      team_sum_(make_team_sum(workplace.backend, workplace.team)),
      clock_(elapsed) {}

StepHistory Trainer::train(Learner& learner, const TrainStep& step) {
  std::optional<TrainState> state = saved(learner, step);
  if (!state) state.emplace(step);
  train(learner, step, *state, [] { return false; });
  return std::move(state->history);
}

void Trainer::train(Learner& learner, const TrainStep& step, TrainState& state, const std::function<bool()>& leave) {
  if (state.finished()) return;
  begin(learner, step, state);
  do {
    const double train_loss = run_epoch(learner, step, state);
    end_epoch(learner, step, state, train_loss);
    if (state.finished()) at_.report.stage(state.history.record);
    pause(learner, step, state);
  } while (!state.finished() && !leave());
  lanes_.reset();
}

double Trainer::run_epoch(Learner& learner, const TrainStep& step, TrainState& state) {
  const Epoch epoch{state.stop.epochs(), orders_.training(step, state.stop.epochs()), state.rate};
  expect(epoch, static_cast<std::size_t>(state.step), step.batch);
  // Where looking is free, every step's loss is looked at; else now and then, so that the device is not kept waiting.
  const std::size_t steps = epoch.order.steps.size(), look = at_.backend.immediate() ? 1 : kLookEvery;
  double shown = std::numeric_limits<double>::quiet_NaN();
  auto looked = static_cast<std::size_t>(state.step);
  for (std::size_t k = looked; k < steps; ++k) {
    train_batch(learner, step, epoch, k);
    const bool looking = k + 1 - looked == look || k + 1 == steps;
    if (looking) {
      const double sum = add_losses(step, epoch, looked, k + 1);
      shown = sum / static_cast<double>(epoch.rows(looked, k + 1));
      state.loss += sum;
      looked = k + 1;
    }
    at_.report.progress(
        {&step, epoch.number, static_cast<Index>(k) + 1, epoch.steps(), shown, epoch.order.global_rows[k]});
    if (looking) {
      state.step = static_cast<Index>(looked);
      pause(learner, step, state);
    }
  }
  if (at_.data.streams() && epoch.number + 1 < step.stop.epochs)
    train_->expect(orders_.training(step, epoch.number + 1));  // while validation goes on
  take_sum_time();
  count_samples(state);
  return state.loss / static_cast<double>(state.samples);
}

void Trainer::take_sum_time() {
  if (team_sum_ || lanes_) clock_.add(lanes_ ? lanes_->take_time() : team_sum_->take_time());
}

// Of streamed samples, some rank may find one that cannot be read: then all must stop.
void Trainer::load(Batches& batches, std::span<const std::int64_t> ids) {
  Timer timer;
  if (!at_.data.streams()) {
    batches.load(ids);
    clock_.time().io += timer.lap();
    return;
  }
  together(at_.team, [&] {
    batches.load(ids);
    clock_.time().io += timer.lap();
  });
  clock_.time().communication += timer.lap();
}

// One optimizer step; its loss, summed over the team's rows, is kept.
void Trainer::train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k) {
  const Range rows = epoch.order.steps[k];
  load(*train_, ids_of(epoch.order, rows));
  const Timer timer;
  Model& model = learner.model;

  Step now{.training = true,
           .seed = mix(config_.seed, stage_key(step)),
           .number = learner.optimizer.steps(),
           .ids = ids_of(epoch.order, rows),
           .ranks = config_.global_batch_norm ? team_sum_.get() : nullptr,
           .index = static_cast<Index>(k),
           .loss_weight = 1.0F / static_cast<float>(epoch.order.global_rows[k])};
  learner.optimizer.advance(epoch.rate.at(epoch.number, now.index, epoch.steps()), now);
  at_.backend.begin(now);
  at_.backend.run(record_keys_[k], [&] {
    const Feed::Batch batch = train_->batch(now);
    if (lanes_) {
      lanes_->train(now, shard_rows(epoch.order, k), batch);
    } else {
      const ConstTensor y = model.forward(now, batch.x);
      at_.backend.loss(now, config_.loss, y, batch.targets, model.output_gradient(rows.count), model.loss());
      model.backward(now, batch.x, {team_sum_.get(), at_.backend.immediate() ? kHostBucket : kDeviceBucket});
    }
    learner.optimizer.update(now, model.params(), model.grads());
    at_.backend.keep(now, model.loss(), losses_.span());
  });
  own_rows_ += std::ssize(now.ids);
  clock_.time().compute += timer.seconds();
}

double Trainer::validate(Learner& learner, int batch_size) {
  Timer timer;
  const Split& split = at_.data.validation();
  const EpochOrder order = orders_.validation(batch_size);
  Model& model = learner.model;
  Index done = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    const Index rows = order.steps[k].count;
    load(*validation_, ids_of(order, order.steps[k]));
    timer.lap();  // load() has told its own seconds
    if (rows == 0) continue;
    const Step now{.training = false, .ids = ids_of(order, order.steps[k]), .index = done++};
    at_.backend.begin(now);
    at_.backend.run(static_cast<std::uint64_t>(rows), [&] {
      const Feed::Batch batch = validation_->batch(now);
      if (lanes_) return lanes_->evaluate(now, shard_rows(order, k), batch);
      const ConstTensor y = model.forward(now, batch.x);
      at_.backend.loss(now, config_.loss, y, batch.targets, {}, model.loss());
      at_.backend.keep(now, model.loss(), losses_.span());
    });
    clock_.time().compute += timer.lap();
  }
  double loss = 0;
  if (!lanes_)
    for (const float part : kept_losses(0, static_cast<std::size_t>(done))) loss += part;
  clock_.time().compute += timer.lap();
  loss = lanes_ ? lanes_->take_loss() : at_.team.sum(loss);
  clock_.time().communication += timer.lap();
  return loss / static_cast<double>(split.shape.samples);
}

}  // namespace mrmf
