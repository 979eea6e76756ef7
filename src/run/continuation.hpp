// What an unfinished run may go on with: the same configuration, the same data, mini-batches of the same size.
#pragma once

#include "src/config/config.hpp"

namespace mrmf {

/// One start of a run: everything that its results depend on.
struct RunStart {
  Config config;
  Index samples = 0;  ///< of the training data
  int ranks = 1;      ///< all of the run
};

/// Whether the last phase may have more epochs than when the run was saved: train --continue.
enum class Epochs { same, more };

/// ConfigError naming the files that are new or gone, or the first keys that differ, with both values. [run], data.load
/// and data.memory may differ. So may the number of ranks and the grids if the mini-batches stay the same (data.shards
/// set, and batch times ranks, or groups of ranks, kept), but not with local batch norm. What it advises is what the
/// command takes: with Epochs::more neither --overwrite nor another folder.
void require_continuable(const RunStart& was, const RunStart& is, Epochs epochs = Epochs::same);

}  // namespace mrmf
