// One step of the optimizer: forward and backward of a global mini-batch, and the update of the parameters.
//
// Synchronous SGD with data parallelism (paper sections 2.2, 3.4). Each rank computes the gradient of its rows of the
// global mini-batch, in one or several micro-batches one after the other. An all-reduce sums the ranks' gradients,
// weighted by 1 / global rows, and every rank updates alike.
#pragma once

#include "src/training/phase_context.hpp"

namespace mrmf {

/// A loss is not finite any more: the learning rate is too high, or the data hold what no network can learn.
struct DivergedError : FaultError {
  using FaultError::FaultError;
};

/// Trains step k of the epoch: all its micro-batches, their sum over the ranks, the update. The step's loss, summed
/// over the team's rows, stays on the device in PhaseContext::losses; those of the terms of a network of several parts
/// go into the state. Collective.
void training_step(PhaseContext& context, const EpochSteps& epoch, std::size_t k, TrainState& state);

/// One of the `training.accumulate` micro-batches of step k, as training calls the model with it.
StepContext micro_batch_step(const PhaseContext& context, const EpochSteps& epoch, std::size_t k, int micro_batch);

/// The sum over the team's rows of the losses of steps [first, last), once these are done. DivergedError (stage, epoch,
/// step) when one is not finite.
double sum_losses(PhaseContext& context, const EpochSteps& epoch, std::size_t first, std::size_t last);

}  // namespace mrmf
