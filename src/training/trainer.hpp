// The training loop: one for every model, method, resolution and team.
//
// Synchronous SGD with data parallelism (paper sections 2.2, 3.4): each rank computes the gradient of its rows of the
// global mini-batch, an all-reduce sums the ranks' gradients weighted by 1 / global rows, every rank updates alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/training/batch_sampler.hpp"
#include "src/training/data_parallel.hpp"
#include "src/training/epoch_clock.hpp"
#include "src/training/model_state.hpp"
#include "src/training/run_context.hpp"
#include "src/training/shard_replicas.hpp"

namespace mrmf {

class Trainer {
 public:
  /// `elapsed`: seconds that the run has taken already.
  Trainer(const Workplace& workplace, const TrainingConfig& config, double elapsed = 0);

  /// On a device, has the backend choose, time and check its operations for every batch of this step, without a model's
  /// memory. total_seconds() leaves that out: a device keeps what it found, so that no second of training goes to
  /// looking.
  void rehearse(const Config& config, const Plan& plan, const TrainStep& step);

  /// Trains `learner` as the step of the plan says: from where it was saved, if it was. Returns what the report's lines
  /// say. FaultError: loss not finite (stage, epoch, step), ranks that disagree on the parameters
  /// (at the step's start, every run.check_ranks minutes, and before the run is saved).
  /// Stopped: a signal came, and the run is saved.
  StepHistory train(Learner& learner, const TrainStep& step);

  /// What an earlier start of the run saved of this step, with the learner as it was then; none: nothing was.
  std::optional<TrainState> saved(Learner& learner, const TrainStep& step);
  /// The same from `state` on, and `state` tells how it ended: unfinished where `leave` said so, which is asked between
  /// two epochs, on every rank alike.
  void train(Learner& learner, const TrainStep& step, TrainState& state, const std::function<bool()>& leave);

  /// Mean loss over all validation samples, each counted once, the same on every rank.
  double validate(Learner& learner, int batch_size);

  /// Of the run: what had elapsed when this trainer was made, models, coarsening, training, validation and fusion since
  /// then; and what earlier starts of the run had taken when they were saved.
  double total_seconds() const { return clock_.total_seconds(); }

 private:
  /// What stays the same through the steps of one epoch.
  struct Epoch {
    int number = 0;
    EpochOrder order;
    const LearningRate& rate;
    Index rows(std::size_t first, std::size_t last) const;  ///< of the team in steps [first, last)
    Index steps() const { return std::ssize(order.steps); }
  };
  void begin(Learner& learner, const TrainStep& step, const TrainState& state);
  double run_epoch(Learner& learner, const TrainStep& step, TrainState& state);
  void train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k);
  void make_lanes(Learner& learner, const TrainStep& step, const Orders::First& order);
  void load(Batches& batches, std::span<const std::int64_t> ids);
  double add_losses(const TrainStep& step, const Epoch& epoch, std::size_t first, std::size_t last);
  std::vector<float> kept_losses(std::size_t first, std::size_t last);
  void expect(const Epoch& epoch, std::size_t first, int batch);
  void take_sum_time();
  void count_samples(TrainState& state);
  void compare_ranks(Learner& learner, const TrainState& state, const std::string& place);
  EpochRecord new_record(const Learner& learner, const TrainStep& step, const TrainState& state) const;
  void end_epoch(Learner& learner, const TrainStep& step, TrainState& state, double train_loss);
  void pause(Learner& learner, const TrainStep& step, TrainState& state);

  Workplace at_;
  TrainingConfig config_;
  Orders orders_;
  std::unique_ptr<RankSum> team_sum_;          // null: alone
  std::optional<Batches> train_, validation_;  // of the stage under way
  std::unique_ptr<Lanes> lanes_;               // likewise; null: whole batches
  Arena losses_;                               // of the steps of an epoch
  std::vector<std::uint64_t> record_keys_;     // of the training steps of an epoch
  Index own_rows_ = 0;                         // trained by this rank, not yet in a TrainState
  EpochClock clock_;
};

}  // namespace mrmf
