#include "src/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "io/agreement.hpp"
#include "src/replicas.hpp"

namespace mrmf {

/// What stays the same through the steps of one epoch.
struct Trainer::Epoch {
  int number = 0;
  EpochOrder order;
  const LearningRate& rate;
  /// Rows of the team in steps [first, last).
  Index rows(std::size_t first, std::size_t last) const {
    const auto begin = order.global_rows.begin();
    return std::accumulate(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
                           Index{0});
  }
  Index steps() const { return static_cast<Index>(order.steps.size()); }
};

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
      earlier_seconds_(elapsed),
      epoch_start_(elapsed) {}

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

// Everything that needs deciding or allocating, so that no step has to.
void Trainer::begin(Learner& learner, const TrainStep& step, const TrainState& state) {
  // In the middle of an epoch, ranks may have statistics of their own.
  if (state.step == 0 && !same_parameters(at_.backend, learner.model, at_.team))
    throw FaultError("the ranks disagree on the parameters at the start of " + place_text(step) +
                     "; look for a faulty node or mixed builds of mrmf");
  learner.optimizer.configure(step.optimizer);
  time_.io += at_.data.require(step.resolution);
  at_.backend.forget();
  const Orders::First order = orders_.first(step);
  const Timer timer;
  together(at_.team, [&] {
    train_.emplace(at_.backend, at_.data.train(), step.resolution, step.batch);
    validation_.emplace(at_.backend, at_.data.validation(), step.resolution, step.batch);
  });
  time_.io += timer.seconds();
  record_keys_ = orders_.record_keys(order.training);
  losses_ = at_.backend.allocate(std::ssize(order.training.steps) + std::ssize(order.validation.steps));
  if (at_.lanes) return make_lanes(learner, step, order);
  for (const Index rows : order.rows()) learner.model.prepare(rows);
}

void Trainer::make_lanes(Learner& learner, const TrainStep& step, const Orders::First& order) {
  const Orders::Shards shards = orders_.shards(step);
  LaneSettings settings{.network = learner.network,
                        .loss = config_.loss,
                        .global_batch_norm = config_.global_batch_norm,
                        .own = shards.own,
                        .all = shards.all};
  settings.network.max_rows = shards.most_rows;
  lanes_ = std::make_unique<Lanes>(at_.backend, at_.team, learner.model, settings);
  lanes_->prepare(order.shard_rows());
}

void Trainer::rehearse(const NetworkSettings& settings, const TrainStep& step) {
  const Timer looking;
  const Network network(at_.backend, settings);
  const Execution execution = plan_execution(at_.backend, network, {settings, 0, true});
  for (const Index rows : orders_.first(step).rows())
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  earlier_seconds_ -= looking.seconds();
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
  return state.loss / static_cast<double>(at_.data.shape().samples);
}

// Streamed samples are read ahead in this order: what is left of the epoch, and validation.
void Trainer::expect(const Epoch& epoch, std::size_t first, int batch) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  train_->expect(left);
  validation_->expect(orders_.validation(batch));
}

void Trainer::take_sum_time() {
  if (!team_sum_ && !lanes_) return;
  const SumTime sums = lanes_ ? lanes_->take_time() : team_sum_->take_time();
  // A device may wait for a sum while the host gathers the next batch: that part is I/O already.
  const double waited = std::min(sums.waited, time_.compute);
  time_.compute -= waited;
  time_.communication += waited;
  time_.hidden += sums.hidden;
}

// The sum over the team's rows of the losses of steps [first, last), once they are done.
double Trainer::add_losses(const TrainStep& step, const Epoch& epoch, std::size_t first, std::size_t last) {
  const Timer timer;
  const std::vector<float> losses = kept_losses(first, last);
  time_.compute += timer.seconds();
  double sum = 0;
  for (std::size_t k = first; k < last; ++k) {
    const float loss = losses[k - first];
    if (!std::isfinite(loss))
      throw FaultError(
          fmt::format("the training loss is {} in {}, epoch {}, step {} of {}; lower the learning rate "
                      "({:g} there) or look for extreme values in the data",
                      loss, place_text(step), epoch.number + 1, k + 1, epoch.steps(),
                      epoch.rate.at(epoch.number, static_cast<Index>(k), epoch.steps())));
    sum += loss;
  }
  return sum;
}

std::vector<float> Trainer::kept_losses(std::size_t first, std::size_t last) {
  std::vector<float> losses(last - first);
  at_.backend.read(losses_.span().subspan(first, losses.size()), losses);
  return losses;
}

// Of streamed samples, some rank may find one that cannot be read: then all must stop.
void Trainer::load(Batches& batches, std::span<const std::int64_t> ids) {
  if (at_.data.streams())
    together(at_.team, [&] { batches.load(ids); });
  else
    batches.load(ids);
}

// One optimizer step; its loss, summed over the team's rows, is kept.
void Trainer::train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k) {
  Timer timer;
  Model& model = learner.model;
  const Range rows = epoch.order.steps[k];
  load(*train_, ids_of(epoch.order, rows));
  time_.io += timer.lap();

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
  time_.compute += timer.lap();
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
    time_.io += timer.lap();
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
    time_.compute += timer.lap();
  }
  double loss = 0;
  if (!lanes_)
    for (const float part : kept_losses(0, static_cast<std::size_t>(done))) loss += part;
  time_.compute += timer.lap();
  loss = lanes_ ? lanes_->take_loss() : at_.team.sum(loss);
  time_.communication += timer.lap();
  return loss / static_cast<double>(split.shape.samples);
}

}  // namespace mrmf
