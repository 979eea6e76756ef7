// The layers there are. Each is made from its input shape (n = the largest number of rows) and its spec;
// impossible shapes throw ConfigError with the layer's name and the sizes.
#pragma once

#include <memory>
#include <optional>

#include "layers/layer.hpp"
#include "layers/spec.hpp"

namespace mrmf {

std::unique_ptr<Layer> make_conv(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_pool(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_flatten(Backend& backend, const Shape& in);
std::unique_ptr<Layer> make_dense(Backend& backend, const Shape& in, const LayerSpec& spec);
std::unique_ptr<Layer> make_activation(Backend& backend, const Shape& in, const LayerSpec& spec);
/// `number` is the layer's position in the model: it keys the masks, so two dropouts differ.
std::unique_ptr<Layer> make_dropout(Backend& backend, const Shape& in, const LayerSpec& spec, std::uint64_t number);

/// Dispatches on spec.kind.
std::unique_ptr<Layer> make_layer(Backend& backend, const Shape& in, const LayerSpec& spec, std::uint64_t number);

/// The fused convolution + max pool + ReLU as one layer with the convolution's parameters,
/// or null where the backend offers none for this geometry.
std::unique_ptr<Layer> make_conv_pool_relu(Backend& backend, const Shape& in, const LayerSpec& conv,
                                           const LayerSpec& pool);

/// Batch norm with the ReLU or leaky ReLU behind it, and the average pool behind that where `pool` is given, as one
/// layer with the batch norm's parameters; null where the backend offers none.
struct NormReluPoolSpecs {
  LayerSpec norm, relu;
  std::optional<LayerSpec> pool;
};
std::unique_ptr<Layer> make_norm_relu_pool(Backend& backend, const Shape& in, const NormReluPoolSpecs& specs);

/// The batch norm of a network's input with the convolution behind it, as one layer that gives no dx; null where the
/// backend offers none. It stands for two layers of the list: lent parameters and gradients are those of the batch norm
/// and, from the next 64-byte boundary on, of the convolution.
std::unique_ptr<Layer> make_norm_conv(Backend& backend, const Shape& in, const LayerSpec& norm, const LayerSpec& conv);

}  // namespace mrmf
