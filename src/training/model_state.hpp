// A model in training: its parameters, its optimizer, and the resolution it works at. And an optimizer's step in
// pieces, one for each rank.
#pragma once

#include <map>
#include <utility>

#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "mpi/session.hpp"
#include "src/plan/plan.hpp"
#include "src/run/checkpoint.hpp"
#include "src/training/optimizer.hpp"
#include "src/training/run_context.hpp"
#include "src/training/worker_arrays.hpp"

namespace mrmf {

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

}  // namespace mrmf
