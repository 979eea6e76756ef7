// What the trainer leaves behind: the records of epochs, and the checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/replicas.hpp"
#include "src/trainer.hpp"

namespace mrmf {
namespace {

TimeSplit split_of(const EpochTime& time, Comm& team) {
  const auto over_ranks = [&](double seconds) {
    const std::vector<double> all = team.gather(seconds);
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return RankSeconds{std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()), *least, *most};
  };
  return {over_ranks(time.io), over_ranks(time.compute), over_ranks(time.communication), over_ranks(time.hidden).mean};
}

// The mean over the ranks: one saved time stands for all of them.
EpochTime mean_time(const EpochTime& time, Comm& team) {
  std::array<double, 4> parts{time.io, time.compute, time.communication, time.hidden};
  team.sum(parts);
  for (double& part : parts) part /= team.size();
  return {parts[0], parts[1], parts[2], parts[3]};
}

// The end of the plan's last step is the end of the run: its model and result are written instead.
bool ends_run(const TrainStep& step) { return step.role == Role::baseline || step.role == Role::finetune; }

}  // namespace

EpochRecord Trainer::new_record(const Learner& learner, const TrainStep& step, const TrainState& state) const {
  EpochRecord record;
  record.stage = step.stage;
  record.role = to_string(step.role);
  record.resolution = step.resolution;
  record.axes = step.axes;
  record.epoch = state.stop.epochs() + 1;
  record.samples = at_.data.shape().samples;
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
    time_.communication += timer.seconds();
  }
  epoch.validation_loss = validate(learner, step.batch);
  if (!std::isfinite(epoch.validation_loss))
    throw FaultError(
        fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                    "extreme values in the validation data",
                    epoch.validation_loss, place_text(step), epoch.epoch));
  state.rate.epoch_done(epoch.validation_loss);
  const StopReason reason = state.stop.update(epoch.train_loss, epoch.validation_loss);
  finish_record(epoch);
  state.history.record.add(epoch);
  state.history.epochs.push_back(epoch);
  if (reason != StopReason::none) state.history.record.reason = to_string(reason);
  state.step = 0;
  state.loss = 0;
  at_.report.epoch(epoch);
}

// An epoch's seconds run from the end of the one before: building models and fusing them are in the first epoch after,
// and writing checkpoints is where it happens.
void Trainer::finish_record(EpochRecord& record) {
  record.total_seconds = total_seconds();
  record.seconds = record.total_seconds - epoch_start_;
  record.split = split_of(time_, at_.team);
  epoch_start_ = record.total_seconds;
  time_ = {};
}

std::optional<TrainState> Trainer::saved(Learner& learner, const TrainStep& step) {
  if (!at_.saving) return {};
  std::optional<TrainState> state = at_.saving->checkpoints.load(at_.backend, learner, step, at_.team);
  if (!state) return {};
  earlier_seconds_ = std::max(earlier_seconds_, state->total_seconds);
  epoch_start_ = state->epoch_start;
  time_ = state->time;
  return state;
}

// Between two optimizer steps or epochs, where all ranks of the team are at the same place.
void Trainer::pause(Learner& learner, const TrainStep& step, TrainState& state) {
  if (!at_.saving || (state.finished() && ends_run(step))) return;
  SaveTimes& times = at_.saving->times;
  const SaveTimes::Wish wish = times.ask(at_.team);
  const bool epoch_due = state.step == 0 && times.after_epoch(state.stop.epochs());
  if (!wish.save && !epoch_due && !state.finished()) return;
  take_sum_time();
  state.time = mean_time(time_, at_.team);
  state.epoch_start = epoch_start_;
  state.total_seconds = total_seconds();
  at_.saving->checkpoints.save(at_.backend, learner, step, state, at_.team);
  times.saved();
  if (wish.signal == 0) return;
  at_.report.log(fmt::format("stopped on {} {}; run the same command again to continue", signal_name(wish.signal),
                             position_text(step, state)));
  throw Stopped{};
}

}  // namespace mrmf
