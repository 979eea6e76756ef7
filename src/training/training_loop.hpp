// The training loop, and what it is made of: a training step, validation, probes, what follows an epoch. In
// training_loop.cpp, training_step.cpp, validation.cpp and epoch_end.cpp.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/rows/sample_store.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/records.hpp"
#include "src/training/phase_context.hpp"

namespace mrmf {

// One step of the optimizer: forward and backward of a global mini-batch, and the update of the parameters.
//
// Synchronous SGD with data parallelism (paper sections 2.2, 3.4). Each rank computes the gradient of its rows of the
// global mini-batch, in one or several micro-batches one after the other. An all-reduce sums the ranks' gradients,
// weighted by 1 / global rows, and every rank updates alike.

/// A loss is not finite any more: the learning rate is too high, or the data hold what no network can learn.
struct DivergedError : FaultError {
  using FaultError::FaultError;
};

/// Trains step k of the epoch: all its micro-batches, their sum over the ranks, the update. The step's loss, summed
/// over the team's rows, stays on the device in PhaseContext::losses; those of the terms of a network of several parts
/// go into the state. Collective.
void training_step(PhaseContext& context, const EpochSteps& epoch, std::size_t k, TrainState& state);

/// One of the `training.accumulate` micro-batches of step k, as training calls the model with it.
StepContext micro_batch_step(const PhaseContext& context, const EpochSteps& epoch, std::size_t k, int micro_batch);

/// The sum over the team's rows of the losses of steps [first, last), once these are done. DivergedError (stage, epoch,
/// step) when one is not finite.
double sum_losses(PhaseContext& context, const EpochSteps& epoch, std::size_t first, std::size_t last);

// A model's loss and metric on the validation data.

struct Validation {
  /// Mean over all validation samples with a label that counts, each counted once: none where no label counts.
  std::optional<double> loss{};
  std::optional<MetricValue> metric{};  ///< where the phase measures one
};

/// Rows that are scored, and in which order.
struct ScoredRows {
  Batches* batches;  ///< none: whole samples are scored, window by window
  const Split& split;
  const EpochOrder& order;
};

/// Scores the rows of these steps of the order with the phase's model: the sum of their losses over all ranks; what the
/// metric counts is in Objective::sums(). Collective.
double score_rows(PhaseContext& context, const ScoredRows& rows, const Range& steps);

/// How many of what the model takes a score of the split sees: samples, or windows of them.
Index scored_rows(const PhaseContext& context, const Split& split);

/// The phase's model as it is; the same result on every rank. Collective.
Validation validate(PhaseContext& context);

// Precise batch norm: the statistics that validation and prediction use, taken anew at the parameters as they are.
// Running averages lag behind parameters that still move, most of all in a short last phase.

struct EpochSteps;
struct PhaseContext;

/// Makes batch norms ready for a validation: their statistics are taken anew from the epoch's first `batches` batches
/// (0: they stay), and where each rank has its own, become the mean over the team. Returns the team's rows that this
/// took. Collective.
Index recalibrate_batch_norms(PhaseContext& context, const EpochSteps& epoch, int batches);

/// The mean of every batch norm's statistics over several batches: before(), a forward in training, after(), batch by
/// batch; then finish() puts the mean in the place of the running averages. Parameters stay as they are.
class PreciseBatchNorm {
 public:
  /// `layers`: those of the model. Keeps references to all three.
  PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers);

  /// The model has a batch norm.
  bool any() const;
  void before();
  void after();
  void finish();

 private:
  Backend& backend_;
  Model& model_;
  std::vector<double> momenta_;  // momenta of each value of the state; 0 where it is none of a batch norm
  std::vector<double> sums_;
  std::vector<float> read_;
  int batches_ = 0;
};

// The first steps of a phase, to see what a coarse model is worth (method.switch = "slope").

/// The first steps of a phase, and what they were worth (src/plan/learning_rate_and_stop_rule.hpp).
struct ProbeResult {
  TrainState state;             ///< after them
  double halfway = 0, end = 0;  ///< validation losses in their middle and at their end; kNoScore: there is none
  double training_gflop = 0;    ///< gflop of training in all steps...
  double second_gflop = 0;      ///< ...and of the second half
  double validation_gflop = 0;  ///< gflop of both validations, and of batch norms' recalibrations
};

/// Transfers a copy of a coarse model and begins the next phase with it.
using ProbeFunction = std::function<ProbeResult(ModelState&)>;

/// Trains the first steps of a fresh phase, for this share of its first epoch (at least two), and validates in their
/// middle and at their end. Saves nothing and asks for no signal. requires: an epoch of two steps or more. Collective.
ProbeResult probe_phase(TrainingSession& session, ModelState& model_state, const Phase& phase, double share);

/// Probes the phase's model after the epoch of this record, which counts what that costs, and tells the stop rule.
/// Collective.
void probe_after_epoch(PhaseContext& context, TrainState& state, EpochRecord& record, const ProbeFunction& probe_model);

// The record of an epoch, and what follows from it: the best model, the learning rate, whether the phase ends, and
// warnings, such as of losses far above the spread of the labels.

// Losses beside the spread of the labels: a model that always answers the labels' mean has their variance as its mean
// squared error, so one that is far worse than that does not learn what the labels say.

/// The number of samples whose labels a rank reads, with so many numbers each: of 4096, or of a million numbers.
Index spread_samples(Index per_sample);

/// The variance of labels around their mean, per channel, as a mean over the channels, over these samples of every
/// rank. Looks at `batch` samples at a time. Collective.
double label_variance(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids,
                      Index batch, Comm& team);

/// Whether a loss is the mean squared error alone, so that the labels' variance says what it should be below.
bool is_mse_alone(const LossSettings& loss);

/// A warning when both losses of an epoch are more than 1000 times that variance; empty: they are not, or the labels do
/// not vary, or the loss is not the mean squared error alone.
std::string spread_warning(const LossSettings& loss, const EpochRecord& epoch, const std::string& position,
                           double variance);

/// The record of the epoch that `state` has just trained. The seconds are end_epoch()'s. `recalibrated`: rows of the
/// team that batch norms' recalibration took. DivergedError (stage, epoch) when the validation loss is not finite.
EpochRecord make_epoch_record(const PhaseContext& context, const TrainState& state, Index recalibrated,
                              const Validation& validation);

/// Ends the epoch: keeps its model if it is the best one, asks the stop rule, writes the record, and puts the state at
/// the next epoch's first step. Collective.
void end_epoch(PhaseContext& context, TrainState& state, EpochRecord record);

/// A line of the log where no validation label counts.
void warn_of_no_score(const PhaseContext& context);

// The training loop: one for every model, method, resolution and team.

class TrainingLoop {
 public:
  /// `elapsed` is the seconds that the run has already taken.
  TrainingLoop(const RunContext& ctx, const TrainingConfig& config, double elapsed = 0);

  /// On a device, lets the backend choose, time and check its operations for every batch of this phase, without a
  /// model's memory. total_seconds() leaves that out: a device keeps the result, so that no training time goes into
  /// searching.
  void autotune(const Config& config, const Plan& plan, const Phase& phase);

  /// Trains the model as the phase says: from its first epoch, from the saved state if there is one, or from `begun`,
  /// which probe() has trained. The model ends as it was after the last epoch, or after the best one where the phase
  /// transfers that. Returns the contents of the run's records.
  /// DivergedError when a loss is not finite (stage, epoch, step); FaultError when ranks disagree on the parameters
  /// (checked at the phase's start, every run.check_ranks minutes, and before the run is saved). Throws Stopped when a
  /// signal came and the run is saved.
  /// `probe_model` is called after the epochs that phase.stop.probe_epochs names.
  PhaseHistory train(ModelState& model_state, const Phase& phase, const ProbeFunction& probe_model = {},
                     std::optional<TrainState> begun = {});

  /// Trains the first steps of a fresh phase alone (probe_phase()).
  ProbeResult probe(ModelState& model_state, const Phase& phase, double share) {
    return probe_phase(session_, model_state, phase, share);
  }

  /// Seconds of the run: those before this was made; models, coarsening, training, validation and fusion since
  /// then; and those of earlier starts of the run until they were saved.
  double total_seconds() const { return session_.clock.total_seconds(); }

 private:
  /// Numbers of rows that calls of the phase have.
  std::set<Index> rows_at_once(const DataConfig& data, const Phase& phase) const;
  /// The state that an earlier start of the run saved of this phase, with the model as it was then; else a fresh one.
  TrainState restore_or_begin(ModelState& model_state, const Phase& phase);

  TrainingSession session_;
};

}  // namespace mrmf
