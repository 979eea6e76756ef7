// What lives for one phase of training: made at its begin, with all decisions and allocations, so that no step has to;
// gone at its end. And of what it is made: the loss and metric (Objective), the clock (EpochClock).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/step_and_collectives.hpp"
#include "kernels/timer.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/data/data.hpp"
#include "src/run/records.hpp"
#include "src/run/train_state.hpp"
#include "src/training/batches.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/deterministic_replicas.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/metrics.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "src/training/run_context.hpp"
#include "src/training/sliding_window_inference.hpp"

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

}  // namespace mrmf
