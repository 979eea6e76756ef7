// Convolutions of few output positions, for which reading the weights takes the time.
#pragma once

#include <memory>

#include "kernels/operations.hpp"

namespace mrmf::onednn {

/// Null where all rows together have more than a few output positions.
std::unique_ptr<WeightedOp> make_few_positions(const ConvGeometry& geometry, Index max_rows);

}  // namespace mrmf::onednn
