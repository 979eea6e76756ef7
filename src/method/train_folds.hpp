// `mrmf train --folds`: a run for every fold of a split.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/train_run.hpp"

namespace mrmf {

/// Trains every fold of data.split into a folder of its own (src/run/fold_folders.hpp) and returns these. A fold that
/// is done is left as it is, and one that was stopped continues. Each is trained by run.ranks ranks (1 unless set), so
/// that a world of more ranks trains several side by side, on a share of the node's cores and memory. `tell` gets a
/// line for each, on the root of the ranks that train it; what the folds' own runs print goes to `train.out` where they
/// are trained one after the other. What the folds were asked for with is kept in the folder: other settings are
/// refused there, unless `train.overwrite`, and so is a folder that has more folds. Collective. ConfigError where the
/// split has no folds, or the ranks make no whole number of teams; throws as train_run().
std::vector<std::string> train_folds(const Config& config, const TrainRun& train, Comm& world,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace mrmf
