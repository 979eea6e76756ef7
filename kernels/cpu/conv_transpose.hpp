// A transposed convolution for backends in host memory, made of their own convolution.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf::cpu {

/// The convolution `conv` of `geometry` with its roles exchanged: see Backend::conv_transpose.
std::unique_ptr<WeightedOp> make_conv_transpose(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                                Index max_rows);

}  // namespace mrmf::cpu
