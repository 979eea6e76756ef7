// The training loop: one for every model, method, resolution and team.
#pragma once

#include <optional>
#include <set>

#include "src/training/phase_context.hpp"
#include "src/training/probe.hpp"

namespace mrmf {

class TrainingLoop {
 public:
  /// `elapsed` is the seconds that the run has already taken.
  TrainingLoop(const RunContext& ctx, const TrainingConfig& config, double elapsed = 0);

  /// On a device, lets the backend choose, time and check its operations for every batch of this phase, without a
  /// model's memory. total_seconds() leaves that out: a device keeps the result, so that no training time goes into
  /// searching.
  void autotune(const Config& config, const Plan& plan, const Phase& phase);

  /// Trains the model as the phase says: from its first epoch, from the saved state if there is one, or from `begun`,
  /// which probe() has trained. The model ends as it was after the last epoch, or after the best one where the phase
  /// transfers that. Returns the contents of the run's records.
  /// DivergedError when a loss is not finite (stage, epoch, step); FaultError when ranks disagree on the parameters
  /// (checked at the phase's start, every run.check_ranks minutes, and before the run is saved). Throws Stopped when a
  /// signal came and the run is saved.
  /// `probe_model` is called after the epochs that phase.stop.probe_epochs names.
  PhaseHistory train(ModelState& model_state, const Phase& phase, const ProbeFunction& probe_model = {},
                     std::optional<TrainState> begun = {});

  /// Trains the first steps of a fresh phase alone (probe_phase()).
  ProbeResult probe(ModelState& model_state, const Phase& phase, double share) {
    return probe_phase(session_, model_state, phase, share);
  }

  /// Seconds of the run: those before this was made; models, coarsening, training, validation and fusion since
  /// then; and those of earlier starts of the run until they were saved.
  double total_seconds() const { return session_.clock.total_seconds(); }

 private:
  /// Numbers of rows that calls of the phase have.
  std::set<Index> rows_at_once(const DataConfig& data, const Phase& phase) const;
  /// The state that an earlier start of the run saved of this phase, with the model as it was then; else a fresh one.
  TrainState restore_or_begin(ModelState& model_state, const Phase& phase);

  TrainingSession session_;
};

}  // namespace mrmf
