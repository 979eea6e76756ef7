// The dense layer behind a flatten on the ranks of a grid, row-parallel as in Megatron-LM (PyTorch's RowwiseParallel):
// the features are shared out. Each rank multiplies those that it has by their weights, and the products are added over
// the sample group. In our weights (outputs, features) a rank has columns.
#pragma once

#include <memory>

#include "layers/layer.hpp"
#include "layers/parameter_layout.hpp"

namespace mrmf {

/// x has this rank's features, as positions and channels, or all of them on every rank. y is whole on every rank. In
/// backward dy is added over the group first; the gradient of the weights is then that of this group's samples, and dx
/// that of this rank's features (zero for the others). Its parameters lie as ParameterLayout says. Needs
/// Step::sample_sum.
std::unique_ptr<Layer> make_row_parallel_dense(Backend& backend, const Shape& in, const LayerSpec& spec,
                                               const RowParallelWeights& cut);

}  // namespace mrmf
