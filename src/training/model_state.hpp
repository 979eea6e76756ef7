// A model in training: its parameters, its optimizer, and the resolution it works at.
#pragma once

#include "layers/model.hpp"
#include "src/plan/plan.hpp"
#include "src/training/optimizer.hpp"

namespace mrmf {

struct Workplace;

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
Learner make_learner(const Plan& plan, const Config& config, const Workplace& at, const Extent& resolution,
                     std::uint64_t seed);

}  // namespace mrmf
