// A learner's contents, from the rank that has them to all others.
#pragma once

#include "mpi/comm.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

enum class LearnerPart { bottom, top, all };

/// Parameters and state of that part, its moments if they are wanted, and the optimizer's count of steps: of rank
/// `root`, to every rank's learner. Collective over `world`.
void hand_round(Backend& backend, Learner& learner, LearnerPart part, bool moments, Comm& world, int root);

}  // namespace mrmf
