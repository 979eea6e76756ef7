// Weight gradients of convolutions with few positions in a sample, over all rows at once.
#pragma once

#include <memory>

#include "kernels/operations.hpp"

namespace mrmf::onednn {

/// The convolution, with another weight gradient where that is faster: not with AVX-512, whose kernels of oneDNN do it
/// well, nor where a sample has more positions than output channels. requires: calls with at most so many rows.
std::unique_ptr<WeightedOp> with_tap_gradients(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                               Index max_rows, int threads);

}  // namespace mrmf::onednn
