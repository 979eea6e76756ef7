// The training loop: one for every model, method, resolution and team.
//
// Synchronous SGD with data parallelism (paper sections 2.2, 3.4): each rank computes the gradient of its rows of the
// global mini-batch, an all-reduce sums the ranks' gradients weighted by 1 / global rows, every rank updates alike.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "src/batches.hpp"
#include "src/learner.hpp"
#include "src/report.hpp"
#include "src/stop_rule.hpp"
#include "src/team_sum.hpp"
#include "src/timer.hpp"

namespace mrmf {

/// What training takes part in: passed by reference, owned by the pipeline's caller.
struct Workplace {
  Backend& backend;
  Comm& team;
  Data& data;
  RunReport& report;
};

/// Seconds of one epoch by what they went to, as in the paper's Tables 4 and 8. They add up to less than the epoch's
/// seconds where a stage begins: models are built, fused and compared between ranks there.
struct EpochTime {
  double io = 0, compute = 0, communication = 0, hidden = 0;
};

class Trainer {
 public:
  Trainer(const Workplace& workplace, const TrainingConfig& config);

  /// Has the backend choose, time and check its operations for every batch of this step, without a model's memory; then
  /// total_seconds() starts anew. A device keeps what it found, so that no second of training goes to looking.
  void rehearse(const NetworkSettings& network, const TrainStep& step);

  /// Trains `learner` as the step of the plan says. Returns what the stage's line of the report says.
  /// FaultError: loss not finite (stage, epoch, step), ranks that disagree on the parameters.
  StageRecord train(Learner& learner, const TrainStep& step);

  /// Mean loss over all validation samples, each counted once, the same on every rank.
  double validate(Learner& learner, int batch_size);

  /// Since this trainer was made: models, coarsening, training, validation and fusion.
  double total_seconds() const { return run_.seconds(); }

 private:
  struct Epoch;
  void begin(Learner& learner, const TrainStep& step);
  double run_epoch(Learner& learner, const TrainStep& step, const LearningRate& rate, int epoch);
  void train_batch(Learner& learner, const TrainStep& step, const Epoch& epoch, std::size_t k);
  double add_losses(const TrainStep& step, const Epoch& epoch, std::size_t first, std::size_t last);
  struct Orders;
  Orders orders(const TrainStep& step) const;
  std::vector<std::uint64_t> record_keys(const EpochOrder& order);
  std::vector<float> kept_losses(std::size_t first, std::size_t last);
  OrderSettings order_settings(const Split& split, int batch) const;
  EpochRecord new_record(const Learner& learner, const TrainStep& step, const LearningRate& rate, int epoch) const;
  void finish_record(EpochRecord& record);

  Workplace at_;
  TrainingConfig config_;
  std::unique_ptr<RankSum> team_sum_;          // null: alone
  std::optional<Batches> train_, validation_;  // of the stage under way
  Arena losses_;                               // of the steps of an epoch
  std::vector<std::uint64_t> record_keys_;     // of the training steps of an epoch
  Timer run_;
  EpochTime time_;            // of the epoch under way
  double total_seconds_ = 0;  // at the end of the epoch before
};

}  // namespace mrmf
