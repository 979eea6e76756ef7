#include "src/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

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

/// The order of a stage's first epoch: the sizes of its batches are those of every epoch.
struct Trainer::Orders {
  EpochOrder train, validation;

  /// The numbers of rows that this rank's batches have; 0 where training leaves it without samples.
  std::set<Index> rows() const {
    std::set<Index> sizes;
    for (const Range& step : train.steps) sizes.insert(step.count);
    for (const Range& step : validation.steps)
      if (step.count > 0) sizes.insert(step.count);
    return sizes;
  }
};

namespace {

std::uint64_t stage_key(const TrainStep& step) {
  return static_cast<std::uint64_t>(step.stage) * 4 + static_cast<std::uint64_t>(step.role);
}

constexpr std::size_t kLookEvery = 64;
// Floats of a part of the gradients that is summed beside backward: long enough that a sum's latency is small beside
// its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

std::span<const std::int64_t> ids_of(const EpochOrder& order, const Range& rows) {
  return std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
}

TimeSplit split_of(const EpochTime& time, Comm& team) {
  const auto over_ranks = [&](double seconds) {
    const std::vector<double> all = team.gather(seconds);
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return RankSeconds{std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()), *least, *most};
  };
  return {over_ranks(time.io), over_ranks(time.compute), over_ranks(time.communication), over_ranks(time.hidden).mean};
}

std::string where(const TrainStep& step) {
  return fmt::format("stage {} ({}, resolution {})", step.stage, to_string(step.role),
                     resolution_text(step.resolution));
}

}  // namespace

Trainer::Trainer(const Workplace& workplace, const TrainingConfig& config)
    : at_(workplace), config_(config), team_sum_(make_team_sum(workplace.backend, workplace.team)) {}

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
    EpochRecord epoch = new_record(learner, step, rate, stop.epochs());
    epoch.train_loss = run_epoch(learner, step, rate, stop.epochs());
    if (!config_.global_batch_norm) {
      const Timer timer;
      average_state(at_.backend, learner.model, at_.team);
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

EpochRecord Trainer::new_record(const Learner& learner, const TrainStep& step, const LearningRate& rate,
                                int epoch) const {
  EpochRecord record;
  record.stage = step.stage;
  record.role = to_string(step.role);
  record.resolution = step.resolution;
  record.epoch = epoch + 1;
  record.samples = at_.data.shape().samples;
  record.learning_rate = rate.at(epoch, 0, 1);
  record.batch = step.batch;
  record.ranks = at_.team.size();
  const auto passes = static_cast<double>(3 * record.samples + at_.data.validation().shape.samples);
  record.gflop = 1e-9 * passes * learner.model.network().flop();
  return record;
}

// An epoch's seconds run from the end of the one before: building models and fusing them are in the first epoch after.
void Trainer::finish_record(EpochRecord& record) {
  record.total_seconds = run_.seconds();
  record.seconds = record.total_seconds - total_seconds_;
  record.split = split_of(time_, at_.team);
  total_seconds_ = record.total_seconds;
  time_ = {};
}

// Everything that needs deciding or allocating, so that no step has to.
void Trainer::begin(Learner& learner, const TrainStep& step) {
  if (!same_parameters(at_.backend, learner.model, at_.team))
    throw FaultError("the ranks disagree on the parameters at the start of " + where(step) +
                     "; look for a faulty node or mixed builds of mrmf");
  learner.optimizer.configure(step.optimizer);
  time_ = {.io = at_.data.require(step.resolution)};
  at_.backend.forget();
  const Orders order = orders(step);
  const Timer timer;
  train_.emplace(at_.backend, at_.data.train(), step.resolution, step.batch);
  validation_.emplace(at_.backend, at_.data.validation(), step.resolution, step.batch);
  time_.io += timer.seconds();
  record_keys_ = record_keys(order.train);
  losses_ = at_.backend.allocate(std::ssize(order.train.steps) + std::ssize(order.validation.steps));
  for (const Index rows : order.rows()) learner.model.prepare(rows);
}

Trainer::Orders Trainer::orders(const TrainStep& step) const {
  const OrderSettings settings = order_settings(at_.data.train(), step.batch);
  check(settings);
  Orders orders{epoch_order(settings, config_.seed, 0, 0),
                epoch_order(order_settings(at_.data.validation(), step.batch), 0, 0, 0)};
  if (orders.rows().contains(0))
    throw ConfigError(
        fmt::format("batch {} leaves rank {} without samples in some steps of {}; use a larger batch or "
                    "fewer ranks",
                    step.batch, at_.team.rank(), where(step)));
  return orders;
}

void Trainer::rehearse(const NetworkSettings& settings, const TrainStep& step) {
  const Network network(at_.backend, settings);
  const Execution execution = plan_execution(at_.backend, network, {settings, 0, true});
  for (const Index rows : orders(step).rows())
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  run_ = {};
}

// A recorded step holds the sums over the ranks, and NCCL wants a sum recorded by all ranks or by none: so a key stands
// for the rows of every rank in that step. Validation has no such sums; its keys are the rows, which are smaller.
std::vector<std::uint64_t> Trainer::record_keys(const EpochOrder& order) {
  constexpr std::uint64_t hash_bits = (std::uint64_t{1} << 40) - 1;  // the sum of the ranks' hashes does not overflow
  std::vector<std::int64_t> hashes;
  for (const Range& rows : order.steps)
    hashes.push_back(static_cast<std::int64_t>(
        mix(static_cast<std::uint64_t>(at_.team.rank()), static_cast<std::uint64_t>(rows.count)) & hash_bits));
  at_.team.sum(hashes);
  std::vector<std::uint64_t> keys;
  for (const std::int64_t hash : hashes) keys.push_back(static_cast<std::uint64_t>(hash) | (std::uint64_t{1} << 63));
  return keys;
}

double Trainer::run_epoch(Learner& learner, const TrainStep& step, const LearningRate& rate, int epoch_number) {
  const Split& split = at_.data.train();
  const OrderSettings settings = order_settings(split, step.batch);
  const auto number = static_cast<std::uint64_t>(epoch_number);
  const Epoch epoch{epoch_number, epoch_order(settings, config_.seed, stage_key(step), number), rate};
  // Where looking is free, every step's loss is looked at; else now and then, so that the device is not kept waiting.
  const std::size_t steps = epoch.order.steps.size(), look = at_.backend.immediate() ? 1 : kLookEvery;
  double loss = 0, shown = std::numeric_limits<double>::quiet_NaN();
  std::size_t looked = 0;
  for (std::size_t k = 0; k < steps; ++k) {
    train_batch(learner, step, epoch, k);
    if (k + 1 - looked == look || k + 1 == steps) {
      const double sum = add_losses(step, epoch, looked, k + 1);
      shown = sum / static_cast<double>(epoch.rows(looked, k + 1));
      loss += sum;
      looked = k + 1;
    }
    at_.report.progress(
        {&step, epoch_number, static_cast<Index>(k) + 1, epoch.steps(), shown, epoch.order.global_rows[k]});
  }
  if (team_sum_) {
    const SumTime sums = team_sum_->take_time();
    // A device may wait for a sum while the host gathers the next batch: that part is I/O already.
    const double waited = std::min(sums.waited, time_.compute);
    time_.compute -= waited;
    time_.communication += waited;
    time_.hidden += sums.hidden;
  }
  return loss / static_cast<double>(split.shape.samples);
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
                      loss, where(step), epoch.number + 1, k + 1, epoch.steps(),
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

// One optimizer step; its loss, summed over the team's rows, is kept.
void Trainer::train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k) {
  Timer timer;
  Model& model = learner.model;
  const Range rows = epoch.order.steps[k];
  train_->load(ids_of(epoch.order, rows));
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
    const ConstTensor y = model.forward(now, batch.x);
    at_.backend.loss(now, config_.loss, y, batch.targets, model.output_gradient(rows.count), model.loss());
    model.backward(now, batch.x, {team_sum_.get(), at_.backend.immediate() ? kHostBucket : kDeviceBucket});
    learner.optimizer.update(now, model.params(), model.grads());
    at_.backend.keep(now, model.loss(), losses_.span());
  });
  time_.compute += timer.lap();
}

double Trainer::validate(Learner& learner, int batch_size) {
  Timer timer;
  const Split& split = at_.data.validation();
  const EpochOrder order = epoch_order(order_settings(split, batch_size), config_.seed, 0, 0);
  Model& model = learner.model;
  Index done = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    const Index rows = order.steps[k].count;
    if (rows == 0) continue;
    const Step now{.training = false, .ids = ids_of(order, order.steps[k]), .index = done++};
    validation_->load(now.ids);
    time_.io += timer.lap();
    at_.backend.begin(now);
    at_.backend.run(static_cast<std::uint64_t>(rows), [&] {
      const Feed::Batch batch = validation_->batch(now);
      const ConstTensor y = model.forward(now, batch.x);
      at_.backend.loss(now, config_.loss, y, batch.targets, {}, model.loss());
      at_.backend.keep(now, model.loss(), losses_.span());
    });
    time_.compute += timer.lap();
  }
  double loss = 0;
  for (const float part : kept_losses(0, static_cast<std::size_t>(done))) loss += part;
  time_.compute += timer.lap();
  loss = at_.team.sum(loss) / static_cast<double>(split.shape.samples);
  time_.communication += timer.lap();
  return loss;
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
