// Looks at a coarse model on its way (method.switch = "slope"): what it is worth at full resolution.
#pragma once

#include <optional>

#include "src/training/trainer.hpp"

namespace mrmf {

/// Hands copies of a stage's coarse model over, and trains each as the next phase will. The last copy goes on as that
/// phase's model, so that nothing of what decided is trained twice.
class Prober {
 public:
  /// Of the plan's only stage. Keeps references.
  Prober(const RunContext& ctx, const Plan& plan, const Config& config);

  /// Collective. The coarse model stays as it is.
  ProbeResult look(ModelState& coarse);

  /// The model and the state of the last look; of a new one, which gives the same bits, where an earlier start of the
  /// run had it. Leaves none.
  struct Begun {
    ModelState model;
    TrainState state;
  };
  Begun take(ModelState& coarse);

 private:
  RunReport silent_;
  RunContext ctx_;
  const Plan& plan_;
  const Config& config_;
  std::optional<Begun> begun_;
};

}  // namespace mrmf
