// What makes each kind of layer, defined in its kind's own file. make_layer() (layers/layer.hpp) chooses among them by
// the list of kinds (layers/spec.hpp), so that a kind that nothing makes is not linked.
#pragma once

#include <memory>

#include "layers/layer.hpp"

namespace mrmf {

/// What make_layer() calls for a layer of its kind. Several kinds may have one; it finds its kind in the spec.
using LayerMaker = std::unique_ptr<Layer>(Backend& backend, const Shape& in, const LayerSpec& spec,
                                          const LayerPosition& position);
#define MRMF_MAKER(kind, maker, field, work) LayerMaker make_##maker;
MRMF_LAYER_KINDS(MRMF_MAKER)
#undef MRMF_MAKER

struct PartitionedWeights;    // layers/memory_layout.hpp
struct HaloExchangeSettings;  // layers/halo_exchange.hpp

/// rica on the ranks of a grid: x has the positions of `split.to`, y those that this rank owns.
std::unique_ptr<Layer> make_split_rica(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const HaloExchangeSettings& split);

// The dense layer behind a flatten on the ranks of a grid, row-parallel as in Megatron-LM (PyTorch's RowwiseParallel):
// the features are shared out. Each rank multiplies those that it has by their weights, and the products are added over
// the sample group. In our weights (outputs, features) a rank has columns.

/// x has this rank's features, as positions and channels, or all of them on every rank. y is whole on every rank. In
/// backward dy is added over the group first; the gradient of the weights is then that of this group's samples, and dx
/// that of this rank's features (zero for the others). Its parameters lie as ParameterLayout says. Needs
/// StepContext::sample_sum.
std::unique_ptr<Layer> make_row_parallel_dense(Backend& backend, const Shape& in, const LayerSpec& spec,
                                               const PartitionedWeights& cut);

}  // namespace mrmf
