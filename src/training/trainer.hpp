// The training loop: one for every model, method, resolution and team.
//
// Synchronous SGD with data parallelism (paper sections 2.2, 3.4). Each rank computes the gradient of its rows of the
// global mini-batch, in one or several parts one after the other. An all-reduce sums the ranks' gradients, weighted by
// 1 / global rows, and every rank updates alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "src/training/batch_sampler.hpp"
#include "src/training/data_parallel.hpp"
#include "src/training/epoch_clock.hpp"
#include "src/training/model_state.hpp"
#include "src/training/objective.hpp"
#include "src/training/run_context.hpp"
#include "src/training/shard_replicas.hpp"
#include "src/training/sharded_update.hpp"

namespace mrmf {

/// A loss is not finite any more: the learning rate is too high, or the data hold what no network can learn.
struct DivergedError : FaultError {
  using FaultError::FaultError;
};

/// The first steps of a phase, and what they were worth (src/plan/slope_rule.hpp).
struct Probe {
  TrainState state;             ///< after them
  double halfway = 0, end = 0;  ///< validation losses in their middle and at their end; kNoScore: there is none
  double training_gflop = 0;    ///< of all steps...
  double second_gflop = 0;      ///< ...and of the second half
  double look_gflop = 0;        ///< of validation, and of batch norms' new statistics
};
/// Hands a copy of a model over and begins the next phase with it.
using LookAt = std::function<Probe(ModelState&)>;

class Trainer {
 public:
  /// `elapsed` is the seconds that the run has already taken.
  Trainer(const RunContext& ctx, const TrainingConfig& config, double elapsed = 0);

  /// On a device, lets the backend choose, time and check its operations for every batch of this phase, without a
  /// model's memory. total_seconds() leaves that out: a device keeps the result, so that no training time goes into
  /// searching.
  void autotune(const Config& config, const Plan& plan, const Phase& phase);

  /// Trains the model as the phase says, from the saved state if there is one. The model ends as it was after the last
  /// epoch, or after the best one where the phase hands that over. Returns the contents of the report's lines.
  /// DivergedError when a loss is not finite (stage, epoch, step); FaultError when ranks disagree on the parameters
  /// (checked at the phase's start, every run.check_ranks minutes, and before the run is saved). Throws Stopped when a
  /// signal came and the run is saved.
  /// `look_at` is called after the epochs that phase.stop.look_epochs names.
  PhaseHistory train(ModelState& model_state, const Phase& phase, LookAt look_at = {});
  /// The same for a phase that probe() has begun, and of which nothing is saved.
  PhaseHistory go_on(ModelState& model_state, const Phase& phase, TrainState begun);

  /// Trains the first steps of a fresh phase, for this share of its first epoch (at least two), and validates in their
  /// middle and at their end. Saves nothing and looks at no signal. requires: an epoch of two steps or more.
  Probe probe(ModelState& model_state, const Phase& phase, double share);

  /// Mean loss over all validation samples with a label that counts, each counted once, the same on every rank: none
  /// where no label counts. And the metric, where the phase measures one.
  struct Validation {
    std::optional<double> loss{};
    std::optional<MetricValue> metric{};
  };
  Validation validate(ModelState& model_state, int batch_size);

  /// Seconds of the run: those before this trainer was made; models, coarsening, training, validation and fusion since
  /// then; and those of earlier starts of the run until they were saved.
  double total_seconds() const { return clock_.total_seconds(); }

 private:
  /// Constants of one epoch's steps.
  struct Epoch {
    int number = 0;
    EpochOrder order;
    const LearningRate& rate;
    Index rows(std::size_t first, std::size_t last) const;  ///< the team's rows in steps [first, last)
    Index steps() const { return std::ssize(order.steps); }
  };
  /// Numbers of rows that calls of the phase have.
  std::set<Index> rows_at_once(const DataConfig& data, const Phase& phase) const;
  /// The state that an earlier start of the run saved of this phase, with the model as it was then; none if it saved
  /// none.
  std::optional<TrainState> saved(ModelState& model_state, const Phase& phase);
  void begin(ModelState& model_state, const Phase& phase, const TrainState& state);
  void hand_over_best(ModelState& model_state, const Phase& phase, const TrainState& state);
  PhaseHistory finish(ModelState& model_state, const Phase& phase, TrainState& state);
  double probe_half(ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t last, Probe& probe);
  void look(ModelState& model_state, TrainState& state, EpochRecord& epoch);
  double run_epoch(ModelState& model_state, const Phase& phase, TrainState& state);
  void train_batch(ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t k, int part);
  void sum_parts(Model& model, const Step& step, int part);
  /// Those of a step, which updates the parameters along with them where that can be.
  GradientSums gradient_sums(const Step& step);
  void clip(Model& model);
  /// Batch norms' statistics from the epoch's first batches, where the phase may end after this epoch.
  void renew_statistics(ModelState& model_state, const Phase& phase, const Epoch& epoch);
  void take_statistics(ModelState& model_state, const Phase& phase, const Epoch& epoch, int batches);
  Step training_step(const ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t k,
                     int part) const;
  /// What a step on this rank's blocks needs more.
  void add_grid(Step& step, const Model& model) const;
  void shard_update(ModelState& model_state);
  void complete_moments();
  void make_replicas(ModelState& model_state, const Phase& phase, const BatchSampler::First& order);
  void load(Batches& batches, std::span<const std::int64_t> ids);
  double add_losses(const Phase& phase, const Epoch& epoch, std::size_t first, std::size_t last);
  std::vector<float> kept_losses(std::size_t first, std::size_t last);
  void expect(const Epoch& epoch, std::size_t first, int batch);
  void take_sum_time();
  void count_samples(TrainState& state);
  void compare_ranks(ModelState& model_state, const TrainState& state, const std::string& place);
  EpochRecord new_record(const ModelState& model_state, const Phase& phase, const TrainState& state) const;
  void end_epoch(ModelState& model_state, const Phase& phase, TrainState& state, double train_loss);
  void warn_of_spread(const Phase& phase, const EpochRecord& epoch);
  void warn_of_no_score(const Phase& phase) const;
  void warn_of_no_metric(const Phase& phase, const EpochRecord& epoch) const;
  void pause(ModelState& model_state, const Phase& phase, TrainState& state);

  /// The ranks that share out the samples of the phase under way.
  Comm& of_samples() const { return grid_ != nullptr ? grid_->same_block() : ctx_.team; }

  RunContext ctx_;
  TrainingConfig config_;
  BatchSampler sampler_;
  std::unique_ptr<AllReduce> all_reduce_;      // null: alone
  SampleGrid* grid_ = nullptr;                 // of the phase under way; null: each rank has whole samples
  std::optional<Batches> train_, validation_;  // likewise
  std::unique_ptr<ShardReplicas> replicas_;    // likewise; null: whole batches
  std::optional<Objective> objective_;         // likewise
  std::unique_ptr<ClipOp> clip_;               // likewise; null: gradients of any norm
  std::optional<ShardedUpdate> sharded_;       // likewise; empty: each rank updates all parameters
  LookAt look_at_;                             // likewise; empty: none
  Arena summed_;                               // likewise: of the parts of a step; empty: there is one
  Arena losses_;                               // of the steps of an epoch
  std::vector<std::uint64_t> record_keys_;     // of the parts of an epoch's training steps
  Index own_rows_ = 0;                         // trained by this rank, not yet in a TrainState
  Index statistics_rows_ = 0;                  // of the team, taken for batch norms' statistics in this epoch
  EpochClock clock_;
};

}  // namespace mrmf
