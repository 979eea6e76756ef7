// What the trainer leaves behind: losses, the records of epochs, and the checkpoints.
#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "src/training/data_parallel.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {
namespace {

// The end of the plan's last step is the end of the run: its model and result are written instead.
bool ends_run(const TrainStep& step) { return step.role == Role::baseline || step.role == Role::finetune; }

}  // namespace

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
