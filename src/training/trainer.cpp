#include "src/training/trainer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "mpi/comm.hpp"
#include "src/training/data_parallel.hpp"

namespace mrmf {

// Everything that needs deciding or allocating, so that no step has to.
void Trainer::begin(Learner& learner, const TrainStep& step, const TrainState& state) {
  compare_ranks(learner, state, "at the start of " + place_text(step));
  own_rows_ = 0;
  learner.optimizer.configure(step.optimizer);
  clock_.time().io += at_.data.require(step.resolution);
  at_.backend.forget();
  const Orders::First order = orders_.first(step);
  const Timer timer;
  together(at_.team, [&] {
    train_.emplace(at_.backend, at_.data.train(), step.resolution, step.batch);
    validation_.emplace(at_.backend, at_.data.validation(), step.resolution, step.batch);
  });
  clock_.time().io += timer.seconds();
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

void Trainer::rehearse(const Config& config, const Plan& plan, const TrainStep& step) {
  if (at_.backend.immediate()) return;
  const NetworkSettings settings = network_settings(config, plan, at_.data.shape().sample, step.resolution);
  const Timer looking;
  const Network network(at_.backend, settings);
  const Execution execution = plan_execution(at_.backend, network, {settings, 0, true});
  for (const Index rows : orders_.first(step).rows())
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  clock_.leave_out(looking.seconds());
}

// Streamed samples are read ahead in this order: what is left of the epoch, and validation.
void Trainer::expect(const Epoch& epoch, std::size_t first, int batch) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  train_->expect(left);
  validation_->expect(orders_.validation(batch));
}

namespace {

constexpr std::size_t kLookEvery = 64;
// Floats of a part of the gradients that is summed beside backward: long enough that a sum's latency is small beside
// its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

// The end of the plan's last step is the end of the run: its model and result are written instead.
bool ends_run(const TrainStep& step) { return step.role == Role::baseline || step.role == Role::finetune; }

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

Index Trainer::Epoch::rows(std::size_t first, std::size_t last) const {
  const auto begin = order.global_rows.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
                         Index{0});
}

// The sum over the team's rows of the losses of steps [first, last), once they are done.
double Trainer::add_losses(const TrainStep& step, const Epoch& epoch, std::size_t first, std::size_t last) {
  const Timer timer;
  const std::vector<float> losses = kept_losses(first, last);
  clock_.time().compute += timer.seconds();
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

EpochRecord Trainer::new_record(const Learner& learner, const TrainStep& step, const TrainState& state) const {
  EpochRecord record;
  record.stage = step.stage;
  record.role = to_string(step.role);
  record.resolution = step.resolution;
  record.axes = step.axes;
  record.epoch = state.stop.epochs() + 1;
  record.samples = state.samples;
  record.learning_rate = state.rate.at(state.stop.epochs(), 0, 1);
  record.batch = step.batch;
  record.ranks = at_.team.size();
  const auto passes = static_cast<double>(3 * record.samples + at_.data.validation().shape.samples);
  record.gflop = 1e-9 * passes * learner.model.network().flop();
  return record;
}

void Trainer::end_epoch(Learner& learner, const TrainStep& step, TrainState& state, double train_loss) {
  EpochRecord epoch = new_record(learner, step, state);
  epoch.train_loss = train_loss;
  if (!config_.global_batch_norm && !lanes_) {  // lanes do so in every step
    const Timer timer;
    average_state(at_.backend, learner.model, at_.team);
    clock_.time().communication += timer.seconds();
  }
  epoch.validation_loss = validate(learner, step.batch);
  if (!std::isfinite(epoch.validation_loss))
    throw FaultError(
        fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                    "extreme values in the validation data",
                    epoch.validation_loss, place_text(step), epoch.epoch));
  state.rate.epoch_done(epoch.validation_loss);
  const StopReason reason = state.stop.update(epoch.train_loss, epoch.validation_loss);
  clock_.end_epoch(epoch, at_.team);
  epoch.split.averaging = at_.team.sum(at_.data.take_averaging_seconds()) / at_.team.size();
  state.history.record.add(epoch);
  state.history.epochs.push_back(epoch);
  if (reason != StopReason::none) state.history.record.reason = to_string(reason);
  state.step = 0;
  state.loss = 0;
  state.samples = 0;
  at_.report.epoch(epoch);
}

std::optional<TrainState> Trainer::saved(Learner& learner, const TrainStep& step) {
  if (!at_.saving) return {};
  std::optional<TrainState> state = at_.saving->checkpoints.load(at_.backend, learner, step, at_.team);
  if (!state) return {};
  clock_.go_on_from(*state);
  return state;
}

// What the ranks trained since the last time.
void Trainer::count_samples(TrainState& state) {
  const Timer timer;
  std::int64_t rows = std::exchange(own_rows_, 0);
  at_.team.sum(std::span(&rows, 1));
  state.samples += rows;
  clock_.time().communication += timer.seconds();
}

// In the middle of an epoch, ranks may have statistics of their own.
void Trainer::compare_ranks(Learner& learner, const TrainState& state, const std::string& place) {
  const Timer timer;
  const bool own_state = !config_.global_batch_norm && !at_.lanes && state.step > 0;
  require_same_model(at_.backend, learner.model, own_state ? Compared::parameters : Compared::parameters_and_state,
                     at_.team, place);
  if (at_.saving) at_.saving->times.compared();
  clock_.time().communication += timer.seconds();
}

// Between two optimizer steps or epochs, where all ranks of the team are at the same place.
void Trainer::pause(Learner& learner, const TrainStep& step, TrainState& state) {
  if (!at_.saving) {
    const int signal = at_.stops != nullptr ? at_.stops->ask(at_.team).signal : 0;
    if (signal != 0) throw Stopped{signal};
    return;
  }
  if (state.finished() && ends_run(step)) return compare_ranks(learner, state, position_text(step, state));
  SaveTimes& times = at_.saving->times;
  const Timer asking;
  const SaveTimes::Wish wish = times.ask(at_.team);
  clock_.time().communication += asking.seconds();
  const bool epoch_due = state.step == 0 && times.after_epoch(state.stop.epochs());
  const bool saving = wish.save || epoch_due || state.finished();
  if (wish.compare || saving)
    compare_ranks(learner, state, position_text(step, state));  // no good file is replaced by a bad one
  if (!saving) return;
  take_sum_time();
  count_samples(state);
  clock_.save(state, at_.team);
  at_.saving->checkpoints.save(at_.backend, learner, step, state, at_.team);
  times.saved();
  if (wish.signal == 0) return;
  at_.report.log(fmt::format("stopped on {} {}; run the same command again to continue", signal_name(wish.signal),
                             position_text(step, state)));
  throw Stopped{wish.signal};
}

}  // namespace mrmf
