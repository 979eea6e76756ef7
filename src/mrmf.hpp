// What a program of yours includes to train with the library, and to use what was trained: <mrmf/mrmf.hpp>.
// docs/guide/installing.md has one.
//
//   MpiEnvironment, Comm            begin MPI and name its ranks; one of each in main()
//   SignalThread                    make one first where OpenMP runs before training; it says why
//   Config, read_config()       what is trained, from a TOML file; every field may be changed afterwards
//   train_run()                 trains it into its run folder, as `mrmf train` does, and returns a RunResult
//   evaluate(), predict()       what `mrmf evaluate` and `mrmf predict` do: a model's scores, a file of its outputs
//   ConfigError, DataError,     what is thrown; Stopped when a signal came and the run is saved
//   FaultError
//
// Other headers of the library may be included too ("src/plan/plan.hpp"), but they change from version to version.
#pragma once

#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/config/config.hpp"
#include "src/inference/evaluate_and_predict.hpp"
#include "src/method/train_run.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/signals.hpp"
#include "src/tournament/train_tournament.hpp"
