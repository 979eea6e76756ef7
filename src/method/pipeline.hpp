// The whole method (paper section 3, Figure 2): follows the plan from the coarsest model to the finetuned one, and
// probes coarse models on their way.
#pragma once

#include <optional>

#include "src/plan/plan.hpp"
#include "src/training/model_state.hpp"
#include "src/training/run_context.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {

// Probes of a coarse model on its way (method.switch = "slope"): what it is worth at full resolution.

/// Transfers copies of a stage's coarse model, and trains each as the next phase will. The last copy continues as that
/// phase's model, so that nothing of what decided is trained twice.
class CoarseProbe {
 public:
  /// For the plan's only stage. Keeps references.
  CoarseProbe(const RunContext& ctx, const Plan& plan, const Config& config);

  /// Collective. The coarse model stays as it is.
  ProbeResult run(ModelState& coarse);

  /// The model and the state of the last probe; of a new one, which gives the same bits, where an earlier start of the
  /// run had it. Leaves none.
  struct ProbedModel {
    ModelState model;
    TrainState state;
  };
  ProbedModel take(ModelState& coarse);

 private:
  RunLog silent_;
  RunContext ctx_;
  const Plan& plan_;
  const Config& config_;
  std::optional<ProbedModel> begun_;
};

struct Outcome {
  ModelState model_state;           ///< the trained model, at the finest resolution of the plan
  std::vector<PhaseRecord> phases;  ///< in order
  std::vector<EpochRecord> epochs;  ///< epochs of the last phase
  double seconds = 0;               ///< seconds of everything, including validation and coarsening
};

/// Builds, trains and fuses the models. The log gets everything learnt on the way.
Outcome run_pipeline(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
