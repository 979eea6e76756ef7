// What makes each kind of layer, defined in its kind's own file. make_layer() (layers/layer.hpp) chooses among them.
#pragma once

#include <memory>
#include <optional>

#include "layers/layer.hpp"

namespace mrmf {

std::unique_ptr<Layer> make_conv(Backend& backend, const Shape& in, const LayerSpec& spec,
                                 const std::optional<Box>& here);
std::unique_ptr<Layer> make_conv_transpose(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_locally_connected(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_l2_pool(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_local_contrast_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                                const LayerPosition& position);
std::unique_ptr<Layer> make_pool(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_global_average_pool(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_upsample(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const std::optional<Box>& counted);
std::unique_ptr<Layer> make_group_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       Index sample_positions);
std::unique_ptr<Layer> make_flatten(Backend& backend, const Shape& in);
std::unique_ptr<Layer> make_dense(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_activation(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_dropout(Backend& backend, const Shape& in, const LayerSpec& spec,
                                    const LayerPosition& position);

std::unique_ptr<Layer> make_labels(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_noise(Backend& backend, const Shape& in, const LayerSpec& spec,
                                  const LayerPosition& position);
std::unique_ptr<Layer> make_slice(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_stop_gradient(Backend& backend, const Shape& in);

struct PartitionedWeights;    // layers/parameter_layout.hpp
struct HaloExchangeSettings;  // layers/halo_exchange.hpp

/// `split`: x has the positions of `split->to`, y those that this rank owns; null: both have all.
std::unique_ptr<Layer> make_rica(Backend& backend, const Shape& in, const LayerSpec& spec,
                                 const HaloExchangeSettings* split = nullptr);

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
