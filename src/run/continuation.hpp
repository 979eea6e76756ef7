// Whether a run may go on from what another start of it saved.
#pragma once

#include <string>

#include "src/config/config.hpp"

namespace mrmf {

/// One start of a run, as far as its results depend on it.
struct RunStart {
  Config config;
  Index samples = 0;  ///< of the training data
  int ranks = 1;
};

/// ConfigError naming the first key that differs, with both values. [run], data.load and data.memory may differ. So may
/// the number of ranks, where the mini-batches stay the same: data.shards set, and batch times ranks kept; not with
/// local batch norm.
void require_continuable(const RunStart& was, const RunStart& is);

}  // namespace mrmf
