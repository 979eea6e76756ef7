// The record of an epoch, and what follows from it: the best model, the learning rate, whether the phase ends, and
// warnings.
#pragma once

#include "src/training/phase_run.hpp"
#include "src/training/validation.hpp"

namespace mrmf {

/// Of the epoch that `state` has just trained. The seconds are end_epoch()'s. `recalibrated`: rows of the team that
/// batch norms' recalibration took. DivergedError (stage, epoch) when the validation loss is not finite.
EpochRecord make_epoch_record(const PhaseRun& run, const TrainState& state, Index recalibrated,
                              const Validation& validation);

/// Ends the epoch: keeps its model if it is the best one, asks the stop rule, writes the record, and puts the state at
/// the next epoch's first step. Collective.
void end_epoch(PhaseRun& run, TrainState& state, EpochRecord record);

/// A line of the log where no validation label counts.
void warn_of_no_score(const PhaseRun& run);

}  // namespace mrmf
