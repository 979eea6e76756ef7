// The record of an epoch, and what follows from it: the best model, the learning rate, whether the phase ends, and
// warnings, such as of losses far above the spread of the labels.
#pragma once

#include <span>
#include <string>

#include "io/rows/sample_store.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/records.hpp"
#include "src/training/phase_context.hpp"
#include "src/training/validation.hpp"

namespace mrmf {

// Losses beside the spread of the labels: a model that always answers the labels' mean has their variance as its mean
// squared error, so one that is far worse than that does not learn what the labels say.

/// The number of samples whose labels a rank reads, with so many numbers each: of 4096, or of a million numbers.
Index spread_samples(Index per_sample);

/// The variance of labels around their mean, per channel, as a mean over the channels, over these samples of every
/// rank. Looks at `batch` samples at a time. Collective.
double label_variance(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids,
                      Index batch, Comm& team);

/// Whether a loss is the mean squared error alone, so that the labels' variance says what it should be below.
bool is_mse_alone(const LossSettings& loss);

/// A warning when both losses of an epoch are more than 1000 times that variance; empty: they are not, or the labels do
/// not vary, or the loss is not the mean squared error alone.
std::string spread_warning(const LossSettings& loss, const EpochRecord& epoch, const std::string& position,
                           double variance);

/// The record of the epoch that `state` has just trained. The seconds are end_epoch()'s. `recalibrated`: rows of the
/// team that batch norms' recalibration took. DivergedError (stage, epoch) when the validation loss is not finite.
EpochRecord make_epoch_record(const PhaseContext& context, const TrainState& state, Index recalibrated,
                              const Validation& validation);

/// Ends the epoch: keeps its model if it is the best one, asks the stop rule, writes the record, and puts the state at
/// the next epoch's first step. Collective.
void end_epoch(PhaseContext& context, TrainState& state, EpochRecord record);

/// A line of the log where no validation label counts.
void warn_of_no_score(const PhaseContext& context);

}  // namespace mrmf
