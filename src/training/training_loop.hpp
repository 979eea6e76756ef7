// The training loop over the epochs of a phase (training_loop.cpp), and what it is made of: what lives for one phase
// (phase_setup.cpp), a training step (training_step.cpp), validation, probes and what follows an epoch
// (validation_and_epoch_end.cpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/rows/sample_store.hpp"
#include "kernels/step_and_collectives.hpp"
#include "kernels/timer.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/data/sliding_window_inference.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/training/batches.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/deterministic_replicas.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/metrics.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

// What a phase trains for: its loss as an operation, and the metric that its validations measure.

class Objective {
 public:
  /// For the model's outputs and the store's targets at this resolution; validations are of outputs of the shape
  /// `whole`, where they are other than the model's.
  Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
            const Extent& resolution, const std::optional<Shape>& whole = {});

  /// LossOp::run() for the model's last outputs.
  void run(const StepContext& step, ConstTensor y, ConstTensor targets, Span dy, Span sum);
  /// What is counted of whole outputs.
  const ScoreSettings& scores() const { return sums_.settings(); }
  bool measures() const { return metric_.has_value(); }

  /// A validation's metric: the sums begin anew, then come batches, whose outputs are the model's last...
  void begin() { sums_.clear(); }
  void add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids);
  /// ...or whole outputs, in the host's memory...
  void add(ConstSpan outputs, ConstSpan targets) {
    if (metric_) sums_.add(outputs, targets);
  }
  /// ...and the team's sums of them are made of these. None where nothing is measured.
  MetricSums& sums() { return sums_; }
  std::optional<MetricValue> metric() const;

 private:
  Backend& backend_;
  Extent resolution_;
  Index target_channels_;
  std::unique_ptr<LossOp> loss_;
  bool cut_;  // a rank has some positions of each sample's output
  std::optional<Metric> metric_;
  MetricSums sums_;
};

// Clock of a run: its seconds, and where those of the current epoch went.

/// A clock for a run and its epochs. An epoch's seconds start at the end of the previous one. So building and fusing
/// models count in the next epoch, and writing checkpoints counts where it happens.
class EpochClock {
 public:
  /// `elapsed` is the seconds that the run has already taken.
  explicit EpochClock(double elapsed) : earlier_(elapsed), epoch_start_(elapsed) {}

  /// The run's seconds: `elapsed`, the time since this clock was made, and that of earlier starts of the run.
  double total_seconds() const { return earlier_ + since_.seconds(); }
  void leave_out(double seconds) { earlier_ -= seconds; }

  /// This rank's times in the current epoch. Whoever does the work adds to them.
  EpochTime& time() { return time_; }
  /// Adds the time of sums over ranks that were waited for while time().compute ran.
  void add(const SumTime& sums);

  /// Ends the epoch: records where its seconds went, over the team's ranks. Collective.
  void end_epoch(EpochRecord& record, Comm& team);

  /// Saves the clock in a state, so that a later start of the run can continue from there. Collective.
  void save(TrainState& state, Comm& team) const;
  void resume_from(const TrainState& state);

 private:
  Timer since_;
  double earlier_;
  double epoch_start_;  // in total_seconds()
  EpochTime time_;
};

/// What the training loop keeps from phase to phase.
struct TrainingSession {
  RunContext ctx;
  TrainingConfig config;
  BatchSampler sampler;
  std::unique_ptr<AllReduce> all_reduce;  ///< over the team; null: a team of one
  EpochClock clock;
};

/// The steps of one epoch.
struct EpochSteps {
  int number = 0;  ///< number of the epoch, from 0
  EpochOrder order;
  const LearningRate& rate;
  std::size_t count() const { return order.steps.size(); }
  Index rows(std::size_t first, std::size_t last) const;  ///< rows of the team, in steps [first, last)
  double learning_rate(std::size_t k) const {
    return rate.at(number, static_cast<Index>(k), static_cast<Index>(count()));
  }
};

struct PhaseBatches {
  Batches training;
  std::optional<Batches> validation;  ///< none: whole samples are validated, window by window
};

struct PhaseContext;
/// The rows that each of this rank's workers has in step k.
std::vector<Index> worker_rows(const PhaseContext& context, const EpochOrder& order, std::size_t k);

/// Only begin_phase() makes one. Keeps references to all that it is made of.
///
/// What a step does follows from the members that are there:
///   gradients    `replicas`, a model for each shard; else the model (`summed`: of several micro-batches)
///   their sum    `worker_sums`, in codes or of directions; else TrainingSession::all_reduce
///   the update   `parts`, of the layers whose turn it is; else `worker_sums` where it adds directions; else `sharded`,
///                each rank a piece within the sum; else the optimizer, on all parameters
/// `parts` goes with the model's own gradients and a plain sum; `sharded` without replicas and without `parts`.
struct PhaseContext {
  PhaseContext(TrainingSession& session_of, ModelState& trained, const Phase& its_phase,
               const BatchSampler::First& order);
  PhaseContext(const PhaseContext&) = delete;
  PhaseContext& operator=(const PhaseContext&) = delete;

  TrainingSession& session;
  ModelState& model_state;
  const Phase& phase;
  SampleGrid* grid;  ///< null: each rank has whole samples
  PhaseBatches batches;
  std::unique_ptr<WindowedModel> windowed;  ///< the model over whole samples; null: it takes them whole
  Objective objective;
  std::vector<std::uint64_t>
      capture_keys;              ///< a key for each of the micro-batches of an epoch's steps, one step after the other
  Arena losses;                  ///< losses of the steps of an epoch, in training or in validation
  Arena summed;                  ///< sums over a step's micro-batches; empty: a step has one
  std::unique_ptr<ClipOp> clip;  ///< null: gradients of any norm
  std::unique_ptr<ShardReplicas> replicas;  ///< null: the model computes whole batches
  std::optional<PartUpdates> parts;         ///< none: a network of one part
  std::optional<ShardedUpdate> sharded;     ///< none: each rank updates all parameters
  std::unique_ptr<WorkerSums> worker_sums;  ///< null: gradients are added in float32
  Index trained_rows = 0;                   ///< by this rank, not yet in a TrainState
  float dropout_factor = 1;                 ///< StepContext::dropout_factor
  std::unique_ptr<MeetingState> meeting;    ///< null before the first
  bool meets_again =
      false;  ///< a meeting is ahead, where a model that has diverged loses (src/training/run_context.hpp)

  Model& model() const { return model_state.model; }
  Backend& backend() const { return session.ctx.backend; }
  /// Statistics that batch norms keep are each rank's own within an epoch.
  bool local_statistics() const { return !session.config.global_batch_norm && !replicas; }

  /// Announces in which order streamed samples are read ahead: the epoch from step `first` on, and a validation.
  void read_ahead(const EpochSteps& epoch, std::size_t first);
  /// Announces an epoch that begins after the validation under way, so that reading continues beside the validation.
  void read_ahead(int epoch);
  /// The order in which whole samples are validated, which are read ahead.
  EpochOrder expect_whole();
  /// Brings samples. Where they are streamed, DataError on all ranks when one of them cannot read its own.
  void load(Batches& of, std::span<const std::int64_t> ids);
  /// Writes into a step what a rank with blocks of samples needs more.
  void add_grid(StepContext& step) const;
  /// What steps [first, last) have kept in `losses`, on the host.
  std::vector<float> read_losses(std::size_t first, std::size_t last);

  /// Workers' own momenta end with the phase, in their mean. Collective.
  void end_momenta();
  /// Every rank has all moments. Collective.
  void complete_moments();
  /// Adds to the state the samples that the ranks have trained since the last time, and to the clock the time of their
  /// sums. Collective.
  void take_counts(TrainState& state);
};

/// Makes room for what each of this rank's workers has of its own, if it is not there. Before a state is loaded.
void prepare_workers(TrainingSession& session, ModelState& model_state, const Phase& phase);

/// The optimizer's settings for a phase that stands at `state`.
OptimizerSettings optimizer_at(const Phase& phase, const TrainState& state);

/// Begins a phase that stands at `state`: compares the ranks' models, makes the data ready, and all that the phase
/// needs. Collective. FaultError when ranks disagree on the parameters.
PhaseContext begin_phase(TrainingSession& session, ModelState& model_state, const Phase& phase,
                         const TrainState& state);

/// FaultError, on every rank, when the ranks of the team disagree on the model (require_same_model()); `position` says
/// where the run stands. Collective.
void compare_ranks(TrainingSession& session, ModelState& model_state, const TrainState& state,
                   const std::string& position);

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
