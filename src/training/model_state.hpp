// A model in training: its parameters, its optimizer, and the resolution it works at.
#pragma once

#include "layers/model.hpp"
#include "src/plan/plan.hpp"
#include "src/training/optimizer.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

struct Learner {
  Extent resolution{1, 1, 1};
  NetworkSettings network;
  Model model;
  Optimizer optimizer;

  Learner(Backend& backend, const ModelSettings& settings, const OptimizerSettings& optimizer_settings,
          const Extent& at)
      : resolution(at),
        network(settings.network),
        model(backend, settings),
        optimizer(backend, optimizer_settings, model.network().params_size(), std::ssize(model.bottom().params)) {}
};

/// A fresh model and optimizer for one resolution, with room for the largest batch the plan uses there.
inline Learner make_learner(const Plan& plan, const Config& config, const Workplace& at, const Extent& resolution,
                            std::uint64_t seed) {
  ModelSettings settings;
  settings.network = network_settings(config, plan, at.data.shape().sample, resolution);
  if (at.lanes) settings.network.max_rows = 1;  // it is the lanes that have room for batches
  settings.seed = seed;
  return {at.backend, settings, config.training.optimizer, resolution};
}

}  // namespace mrmf
