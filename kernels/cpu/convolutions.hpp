// Convolutions of our own, and a convolution fused with the batch norm of the network's input.
#pragma once

#include <memory>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/operations.hpp"

namespace mrmf::cpu {

/// The direct kernels (vector_kernels.hpp): products of plain runs of input, or of Winograd's transforms of them.
enum class DirectKernels { plain, winograd };
/// Convolutions on the direct kernels, and the same behind a batch norm whose output is never stored. Null where they
/// do not serve: on processors without AVX2, with strides or dilation, for few positions in a plane, for output
/// channels that are no multiple of the lanes; Winograd's also for other than three taps along the last axis.
std::unique_ptr<WeightedOp> make_direct_conv(DirectKernels kernels, const ConvGeometry& geometry);
std::unique_ptr<NormConvOp> make_direct_norm_conv(DirectKernels kernels, const NormSettings& settings,
                                                  const ConvGeometry& geometry);

/// Convolutions for which reading the weights takes the time. Null where all rows together have more than a few output
/// positions.
std::unique_ptr<WeightedOp> make_few_positions(const ConvGeometry& geometry, Index max_rows);

/// Whether a convolution, max pooling and ReLU can go in one pass: in 1-D, with stride 1, without dilation or padding,
/// pooled by windows that neither overlap nor leave gaps.
bool fused_conv_pool_serves(const ConvGeometry& conv, const PoolGeometry& pool);
/// The same on the kernels for an instruction set (conv_pool_relu.cpp). requires: that they serve, and a set that the
/// processor has.
std::unique_ptr<ConvPoolOp> make_fused_conv_pool(InstructionSet set, const ConvGeometry& conv,
                                                 const PoolGeometry& pool);

}  // namespace mrmf::cpu
