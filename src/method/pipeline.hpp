// The whole method (paper section 3, Figure 2): follows the plan from the coarsest model to the finetuned one.
#pragma once

#include "src/plan/plan.hpp"
#include "src/training/model_state.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

struct Outcome {
  ModelState model_state;           ///< the trained model, at the finest resolution of the plan
  std::vector<PhaseRecord> phases;  ///< in order
  std::vector<EpochRecord> epochs;  ///< epochs of the last phase
  double seconds = 0;               ///< seconds of everything, including validation and coarsening
};

/// Builds, trains and fuses the models. The log gets everything learnt on the way.
Outcome run_pipeline(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
