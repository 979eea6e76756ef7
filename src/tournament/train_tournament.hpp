// A whole tournament: from a configuration to a finished run folder, whose model is the best trainer's.
#pragma once

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/train_run.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {

/// Trains config.tournament.trainers models into config.run.folder, or continues where they were stopped. Each trainer
/// is a run (train_run()) of its own team, in the folder trainer-<n> there, with its part of the training rows and its
/// own seed: training.seed plus its number. Where they meet, models change places (src/tournament/tournament.hpp). In
/// the end all are compared by their scores on the validation data, which they have in common, and the best one's model
/// and records become the run's. Returns what its result.json says. Collective over `world`; errors as train_run()'s.
RunResult train_tournament(const Config& asked, const TrainRun& train, Comm& world);

}  // namespace mrmf
