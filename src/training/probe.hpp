// The first steps of a phase, to see what a coarse model is worth (method.switch = "slope").
#pragma once

#include <functional>

#include "src/training/phase_context.hpp"

namespace mrmf {

/// The first steps of a phase, and what they were worth (src/plan/stop_rule.hpp).
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

}  // namespace mrmf
