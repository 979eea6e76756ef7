// A model in training and its optimizer (SGD with momentum, Adam, AdamW, Lion). Its updates: of all parameters, of the
// piece that each rank has (sharded, as ZeRO), or by an optimizer for each part of the network. And the momenta and
// residuals that each worker keeps for itself.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/step_and_collectives.hpp"
#include "layers/layer.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

// What each worker has of its own from step to step: a momentum of its own gradients, for Lion, and what the codes of
// its gradients have left out; and the same of the team's sums. A worker is a rank, or each of a rank's shards where
// these are computed by themselves.

/// Workers of this rank, of the team; every rank has as many, and those of the first rank come first.
struct WorkerCount {
  int own = 1, all = 1;
  bool operator==(const WorkerCount&) const = default;
};

class WorkerArrays {
 public:
  /// Makes the arrays that these sums need, unless they are there for as many workers. `momentum`: the optimizer's,
  /// which is the first worker's.
  void prepare(Backend& backend, const SumSettings& sums, const WorkerCount& count, Span momentum);

  const WorkerCount& count() const { return count_; }
  /// By own worker, laid out as the parameters; empty where gradients are added.
  const std::vector<Span>& momenta() const { return momenta_; }
  /// Empty without error feedback.
  const std::vector<Span>& residuals() const { return residuals_; }
  /// What codes of the team's sums have left out: on each rank that of the pieces that it adds, and zero elsewhere.
  Span sum_residual() const { return sum_residual_; }

  /// Where a phase begins: every momentum becomes the optimizer's, and nothing is left out.
  void begin(Backend& backend);
  /// All of them, to be kept and written back.
  std::vector<Span> all() const;

 private:
  WorkerCount count_{0, 0};
  std::vector<Arena> arenas_;
  std::vector<Span> momenta_, residuals_;
  Span sum_residual_;
};

// SGD with momentum, Adam, AdamW and Lion over one arena of parameters. The moments are arenas of the same layout, so a
// fusion or a checkpoint can treat moments as it treats parameters at the same offsets.

/// Number of moments per parameter.
constexpr int moment_count(OptimizerKind kind) {
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw ? 2 : 1;
}

/// Moments of an optimizer that may leave out the velocity of plain SGD, which nobody reads: training.update_in_place.
constexpr int moment_count(const OptimizerSettings& optimizer, bool in_place) {
  const bool plain = optimizer.name == OptimizerKind::sgd && optimizer.momentum == 0;
  return in_place && plain ? 0 : moment_count(optimizer.name);
}

class Optimizer {
 public:
  /// The first `bottom` of the `count` parameters are the bottom's. in_place: see moment_count().
  Optimizer(Backend& backend, const OptimizerSettings& settings, Index count, Index bottom = 0, bool in_place = false);

  /// Counts a step and writes its numbers into `step`, for the updates that follow.
  void advance(double learning_rate, StepContext& step);
  /// Does w -= update(dw) for all parameters; the spans are the model's whole arenas.
  void update(const StepContext& step, Span w, ConstSpan dw) { update(step, w, dw, {0, std::ssize(w)}); }
  /// Updates one span of the parameters; w and dw are the whole arenas.
  void update(const StepContext& step, Span w, ConstSpan dw, const ArenaSpan& span) {
    update_at(span, step, span_at(w, span),
              dw.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)));
  }
  /// The same of the parameters w, which have this span among all.
  void update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw);

  /// The same for parameters that have settings of their own; their moments have seen so many updates, and this one.
  void update_apart(const OptimizerSettings& settings, std::uint64_t earlier, double learning_rate, StepContext step,
                    Span w, ConstSpan dw, const ArenaSpan& span);

  /// Moment arenas: {velocity} for sgd, or none, {m} for lion, {m, v} for adam and adamw.
  std::vector<Span> moments();
  const OptimizerSettings& settings() const { return settings_; }
  const MomentAges& ages() const { return ages_; }
  std::uint64_t steps() const { return std::max(ages_.bottom, ages_.top); }
  void reset();                                            ///< zero moments of age 0
  void set_ages(const MomentAges& ages) { ages_ = ages; }  ///< after moments were written
  /// The next phase may have other coefficients; the kind of optimizer stays.
  void configure(const OptimizerSettings& settings);

 private:
  void update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw, OptimizerKind kind,
                 bool one_age);

  Backend* backend_;
  OptimizerSettings settings_;
  Arena first_, second_;
  Index bottom_;
  int moments_;
  MomentAges ages_;
};

// A model in training: its parameters, its optimizer, and the resolution it works at. And an optimizer's step in
// pieces, one for each rank.

struct ModelState {
  Extent resolution{1, 1, 1};
  NetworkSettings network_settings;
  Model model;
  Optimizer optimizer;
  WorkerArrays workers{};
  Comm* sample_group = nullptr;  ///< the ranks that share each sample with this one; null: no others
  HostModel best;                ///< the model of the best epoch of the phase under way or done, where it is kept

  ModelState(Backend& backend, const ModelSettings& settings, const OptimizerSettings& optimizer_settings,
             const Extent& at, Comm* its_sample_group = nullptr)
      : resolution(at),
        network_settings(settings.network),
        model(backend, settings),
        optimizer(backend, optimizer_settings, std::ssize(model.params()), bottom_params(model), settings.in_place),
        sample_group(its_sample_group) {
    if (const std::vector<Span> moments = optimizer.moments(); settings.in_place && !moments.empty())
      model.use_velocity(moments.front());
  }

  /// Floats of the parameters before the top: their moments have an age of their own.
  static Index bottom_params(Model& model) {
    const std::vector<LayerGroup> bottom = model.bottom();
    const bool first = !bottom.empty() && bottom.front().params.data() == model.params().data();
    return first ? std::ssize(bottom.front().params) : 0;
  }

  /// The optimizer's step for all parameters that have gradients.
  void update(const StepContext& step) {
    for (const ParameterLayout::Stretch& part : model.layout().with_gradients())
      optimizer.update_at(part.params, step, span_at(model.params(), part.params),
                          span_at(model.grads(), {part.gradients, part.params.count}));
  }

  /// The arrays that a checkpoint reads and writes.
  SavedArrays arrays() {
    return {model.network(),
            model.layout(),
            sample_group,
            model.params(),
            model.state(),
            optimizer.moments(),
            optimizer.ages(),
            &best,
            {workers.count().all, workers.momenta(), workers.residuals(), workers.sum_residual()}};
  }

  /// The model as it is becomes the best one.
  void keep_best(Backend& backend) {
    best.params.resize(model.params().size());
    best.state.resize(model.state().size());
    backend.read(model.params(), best.params);
    backend.read(model.state(), best.state);
  }
  /// Exchanges the model and the best one, which must be there.
  void swap_best(Backend& backend) {
    const HostModel taken = std::move(best);
    best = {};
    keep_best(backend);
    backend.write(taken.params, model.params());
    backend.write(taken.state, model.state());
  }
};

/// A fresh model and optimizer for one resolution, with room for the plan's largest batch there.
inline ModelState make_model_state(const Plan& plan, const Config& config, const RunContext& ctx,
                                   const Extent& resolution, std::uint64_t seed) {
  ModelSettings settings;
  settings.network = network_settings(config, plan, ctx.data.shape().sample, resolution);
  if (ctx.shard_replicas) settings.network.max_rows = 1;  // the replicas have the room for batches
  settings.seed = seed;
  // The ranks that train the model in the end may be others than those that make it (method.teams): any number.
  const bool some_add_by_pieces = MpiEnvironment::ranks() > 1 && !config.run.deterministic && !ctx.shard_replicas;
  settings.shared = std::ranges::any_of(plan.phases(), [&](const Phase& phase) {
    return updates_in_pieces(config.training, phase.sums, some_add_by_pieces);
  });
  settings.in_place = config.training.update_in_place;
  SampleGrid* const grid = ctx.grid(resolution);
  if (grid != nullptr) settings.grid = grid->grid(), settings.block = grid->block();
  return {ctx.backend, settings, config.training.optimizer, resolution,
          grid != nullptr ? &grid->sample_group() : nullptr};
}

// The updates of a network of several parts (layers/parts.hpp): each part by an optimizer of its own, in its turns.
// What a step does, and how many updates a part has had, are functions of the step's position in the phase. So a
// checkpoint needs nothing more of them.

class PartUpdates {
 public:
  /// Makes the updates of the model's parts as the phase trains them.
  PartUpdates(const TrainingConfig& training, const OptimizerSettings& phase, const Model& model);
  PartUpdates(const PartUpdates&) = delete;
  PartUpdates& operator=(const PartUpdates&) = delete;

  /// Where a step stands: in an epoch that has so many.
  struct StepPosition {
    int epoch = 0;
    Index step = 0, steps = 1;
  };
  std::size_t turn(const StepPosition& position) const {
    return order_.at(position.epoch, position.step, position.steps);
  }

  /// Clears the gradients of what the step's turn does not update, so that they count in no norm.
  void clear_others(Backend& backend, const StepContext& step, Span grads) const;
  /// The learning rate that the phase's rule gives there, and how many times its own the weight decay is.
  struct Factors {
    double learning_rate = 0, weight_decay = 1;
  };
  /// Updates the parts of the step's turn. Their own rates and weight decays are multiplied as the phase's.
  void update(ModelState& model_state, const StepContext& step, const StepPosition& position,
              const Factors& factors) const;

 private:
  struct Own {
    std::string name;  // empty: all layers, where there are no parts
    OptimizerSettings settings;
    std::vector<ArenaSpan> spans;
  };
  bool trains(std::size_t turn, const Own& part) const;

  PartSettings settings_;
  TurnOrder order_;
  OptimizerSettings phase_;
  std::vector<Own> parts_;
};

/// Adds the rows and the losses of a step, which the model has computed and the ranks have added, to those of the
/// epoch.
void add_terms(const PartSettings& settings, const StepContext& step, ConstSpan term_losses, Index rows,
               TrainState& state);

// The optimizer's step in pieces (as ZeRO's first stage): each rank updates the piece of the parameters whose gradients
// it adds, and gives it to the others, where it would give them the sum. So no parameter of a long sum is updated
// twice. Each rank has the moments of its own pieces alone until they are needed whole: before a checkpoint, a probe,
// and a phase's end. Ranks of one node read the pieces in each other's memory, but for row-parallel weights.

class ShardedUpdate {
 public:
  struct Ranks {
    AllReduce& sums;   ///< sums of the gradients of whole weights, over...
    Comm& all;         ///< ...these
    Comm& same_block;  ///< sum the gradients of row-parallel weights (layers/memory_layout.hpp)
  };
  /// Collective; keeps references. `sums` has no other update while this lives. requires: moments in the host's memory.
  ShardedUpdate(ModelState& model_state, const Ranks& ranks) : model_state_(model_state), ranks_(ranks) {
    ranks_.sums.share_memory(model_state_.model.shared());
  }
  ~ShardedUpdate() { ranks_.sums.stop_sharing(); }
  ShardedUpdate(const ShardedUpdate&) = delete;
  ShardedUpdate& operator=(const ShardedUpdate&) = delete;

  /// The update of the step whose sums begin next. `step` must live until they are done.
  const UpdateAt* bind(const StepContext& step) {
    step_ = &step;
    return &update_;
  }

  /// Every rank has all moments. Collective; costs nothing where no step was made since the last time.
  void complete();

 private:
  void update(const ArenaSpan& summed, const ArenaSpan& own);

  ModelState& model_state_;
  Ranks ranks_;
  const StepContext* step_ = nullptr;
  UpdateAt update_ = [this](const ArenaSpan& summed, const ArenaSpan& own) { update(summed, own); };
  struct Pieces {
    ArenaSpan summed, own;
  };
  std::map<Index, Pieces> pieces_;  // by the first float of what was summed at once; the same in every step
  bool whole_ = true;
};

}  // namespace mrmf
