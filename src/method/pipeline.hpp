// The whole method (paper section 3, Figure 2): follows the plan from the coarsest model to the finetuned one.
#pragma once

#include "src/plan/plan.hpp"
#include "src/training/model_state.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

struct Outcome {
  ModelState model_state;           ///< the trained model, at the finest resolution of the plan
  std::vector<PhaseRecord> phases;  ///< in order
  double seconds = 0;               ///< of all of it, validation and coarsening included
};

/// Builds the models, trains and fuses them. Everything it learns on the way goes to the report.
Outcome run_pipeline(const Plan& plan, const Config& config, const RunContext& ctx);

}  // namespace mrmf
