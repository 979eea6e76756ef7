// Which units of a network of several parts a step has to compute, in whose turn it is (layers/parts.hpp).
#pragma once

#include <vector>

#include "layers/execution.hpp"

namespace mrmf {

/// Which units take part, one flag for each. A turn's forward computes what its terms need, and its backward what lies
/// between them and the parameters that it updates. Elsewhere gradients are zero.
struct LiveUnits {
  std::vector<bool> forward, backward;
};

/// One entry for each turn, then one for evaluation, which needs the network's output alone.
std::vector<LiveUnits> live_units(const Execution& execution, const Network& network);

}  // namespace mrmf
