#include "src/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/replicas.hpp"

namespace mrmf {

/// What stays the same through the steps of one epoch.
struct Trainer::Epoch {
  int number = 0;
  EpochOrder order;
  const LearningRate& rate;
  Index steps() const { return static_cast<Index>(order.steps.size()); }
};

namespace {

std::uint64_t stage_key(const TrainStep& step) {
  return static_cast<std::uint64_t>(step.stage) * 4 + static_cast<std::uint64_t>(step.role);
}

std::string where(const TrainStep& step) {
  return fmt::format("stage {} ({}, resolution {})", step.stage, to_string(step.role),
                     resolution_text(step.resolution));
}

}  // namespace

Trainer::Trainer(const Workplace& workplace, const TrainingConfig& config)
    : at_(workplace), config_(config), team_sum_(workplace.team) {}

StageRecord Trainer::train(Learner& learner, const TrainStep& step) {
  begin(learner, step);
  StopRule stop(step.stop);
  LearningRate rate(step.optimizer, step.stop.epochs, step.curve);
  StageRecord stage;
  stage.stage = step.stage;
  stage.role = to_string(step.role);
  stage.resolution = step.resolution;
  StopReason reason = StopReason::none;
  while (reason == StopReason::none) {
    EpochRecord epoch = new_record(step, rate, stop.epochs());
    epoch.train_loss = run_epoch(learner, step, rate, stop.epochs());
    if (!config_.global_batch_norm) {
      const Timer timer;
      average_state(learner.model, at_.team);
      time_.communication += timer.seconds();
    }
    epoch.validation_loss = validate(learner, step.batch);
    if (!std::isfinite(epoch.validation_loss))
      throw FaultError(
          fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                      "extreme values in the validation data",
                      epoch.validation_loss, where(step), epoch.epoch));
    rate.epoch_done(epoch.validation_loss);
    reason = stop.update(epoch.train_loss, epoch.validation_loss);
    finish_record(epoch);
    stage.add(epoch);
    at_.report.epoch(epoch);
  }
  stage.reason = to_string(reason);
  at_.report.stage(stage);
  return stage;
}

EpochRecord Trainer::new_record(const TrainStep& step, const LearningRate& rate, int epoch) const {
  EpochRecord record;
  record.stage = step.stage;
  record.role = to_string(step.role);
  record.resolution = step.resolution;
  record.epoch = epoch + 1;
  record.samples = at_.data.shape().samples;
  record.learning_rate = rate.at(epoch, 0, 1);
  record.batch = step.batch;
  record.ranks = at_.team.size();
  return record;
}

// An epoch's seconds run from the end of the one before: building models and fusing them are in the first epoch after.
void Trainer::finish_record(EpochRecord& record) {
  record.total_seconds = run_.seconds();
  record.seconds = record.total_seconds - total_seconds_;
  record.io_seconds = time_.io;
  record.compute_seconds = time_.compute;
  record.communication_seconds = time_.communication;
  total_seconds_ = record.total_seconds;
  time_ = {};
}

// Everything that needs deciding or allocating, so that no step has to.
void Trainer::begin(Learner& learner, const TrainStep& step) {
  if (!same_parameters(learner.model, at_.team))
    throw FaultError("the ranks disagree on the parameters at the start of " + where(step) +
                     "; look for a faulty node or mixed builds of mrmf");
  learner.optimizer.configure(step.optimizer);
  time_ = {.io = at_.data.require(step.resolution)};
  const Shape sample = at_.data.train().store->sample(step.resolution);
  samples_ = at_.backend.allocate(step.batch * sample.per_sample());
  targets_ = at_.backend.allocate(step.batch * at_.data.shape().outputs);
  std::set<Index> sizes;
  const OrderSettings order = order_settings(at_.data.train(), step.batch);
  check(order);
  for (const Range& rows : epoch_order(order, config_.seed, 0, 0).steps) sizes.insert(rows.count);
  if (sizes.contains(0))
    throw ConfigError(
        fmt::format("batch {} leaves rank {} without samples in some steps of {}; use a larger batch or "
                    "fewer ranks",
                    step.batch, at_.team.rank(), where(step)));
  for (const Range& rows : epoch_order(order_settings(at_.data.validation(), step.batch), 0, 0, 0).steps)
    if (rows.count > 0) sizes.insert(rows.count);
  for (const Index rows : sizes) learner.model.prepare(rows);
}

double Trainer::run_epoch(Learner& learner, const TrainStep& step, const LearningRate& rate, int epoch_number) {
  const Split& split = at_.data.train();
  const OrderSettings settings = order_settings(split, step.batch);
  const auto number = static_cast<std::uint64_t>(epoch_number);
  const Epoch epoch{epoch_number, epoch_order(settings, config_.seed, stage_key(step), number), rate};
  double loss = 0;
  for (std::size_t k = 0; k < epoch.order.steps.size(); ++k) {
    const double sum = train_batch(learner, step, epoch, k);
    if (!std::isfinite(sum))
      throw FaultError(
          fmt::format("the training loss is {} in {}, epoch {}, step {} of {}; lower the learning rate "
                      "({:g} there) or look for extreme values in the data",
                      sum, where(step), epoch_number + 1, k + 1, epoch.steps(),
                      rate.at(epoch_number, static_cast<Index>(k), epoch.steps())));
    loss += sum;
    at_.report.progress({&step, epoch_number, static_cast<Index>(k) + 1, epoch.steps(),
                         sum / static_cast<double>(epoch.order.global_rows[k]), epoch.order.global_rows[k]});
  }
  return loss / static_cast<double>(split.shape.samples);
}

// One optimizer step; returns the sum of the loss over the team's rows.
double Trainer::train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k) {
  Timer timer;
  Model& model = learner.model;
  const ConstTensor x = fetch(at_.data.train(), epoch.order, k, step.resolution);
  time_.io += timer.lap();

  const Index first = epoch.order.steps[k].first;
  const Step now{
      .training = true,
      .seed = mix(config_.seed, stage_key(step)),
      .number = learner.optimizer.steps(),
      .ids = std::span(epoch.order.ids).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(x.shape.n)),
      .ranks = config_.global_batch_norm && at_.team.size() > 1 ? &team_sum_ : nullptr};
  const ConstTensor y = model.forward(now, x);
  const float weight = 1.0F / static_cast<float>(epoch.order.global_rows[k]);
  double loss = at_.backend.loss(config_.loss, y, target_, weight, model.output_gradient(x.shape.n));
  model.backward(now, x);
  const double inside = team_sum_.take_seconds();
  time_.compute += timer.lap() - inside;
  time_.communication += inside;

  if (at_.team.size() > 1) {  // the loss travels with the gradients, so every rank sees the same one
    float& travelling = model.reduced()[model.grads().size()];
    travelling = static_cast<float>(loss);
    at_.team.sum(model.reduced());
    loss = travelling;
    time_.communication += timer.lap();
  }
  learner.optimizer.step(epoch.rate.at(epoch.number, static_cast<Index>(k), epoch.steps()), model.params(),
                         model.grads());
  time_.compute += timer.lap();
  return loss;
}

double Trainer::validate(Learner& learner, int batch) {
  Timer timer;
  const Split& split = at_.data.validation();
  const EpochOrder order = epoch_order(order_settings(split, batch), config_.seed, 0, 0);
  double loss = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    if (order.steps[k].count == 0) continue;
    const ConstTensor x = fetch(split, order, k, learner.resolution);
    time_.io += timer.lap();
    const ConstTensor y = learner.model.forward({.training = false}, x);
    loss += at_.backend.loss(config_.loss, y, target_, 0.0F, {});
    time_.compute += timer.lap();
  }
  loss = at_.team.sum(loss) / static_cast<double>(split.shape.samples);
  time_.communication += timer.lap();
  return loss;
}

ConstTensor Trainer::fetch(const Split& split, const EpochOrder& order, std::size_t k, const Extent& resolution) {
  const Range rows = order.steps[k];
  const Tensor x{split.store->sample(resolution).rows(rows.count), {}};
  const Shape labels{.n = rows.count, .channels = split.store->outputs()};
  const Tensor filled{x.shape, samples_.span().first(static_cast<std::size_t>(x.shape.count()))};
  const Tensor targets{labels, targets_.span().first(static_cast<std::size_t>(labels.count()))};
  split.store->gather(
      resolution,
      std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count)), filled,
      targets);
  target_ = targets;
  return filled;
}

// A validation set may be smaller than the batch, or leave ranks without samples.
OrderSettings Trainer::order_settings(const Split& split, int batch) const {
  OrderSettings settings = split.order;
  settings.batch = batch;
  if (&split == &at_.data.validation()) {
    const Index least = settings.shards / settings.ranks;
    settings.batch = std::max(least, std::min<Index>(batch, largest_batch(settings)));
  }
  return settings;
}

}  // namespace mrmf
