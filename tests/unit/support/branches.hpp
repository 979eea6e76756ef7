// Networks with branches for tests: named layers, a residual network, a network with skips, and random ones.
#pragma once

#include <string>
#include <vector>

#include "layers/model.hpp"

namespace mrmf::test {

LayerSpec named(LayerKind kind, const std::string& name, std::vector<std::string> from = {});
LayerSpec named_conv(const std::string& name, Index filters, Index kernel, std::vector<std::string> from = {});

/// Two residual blocks with batch norm, the second with a convolution of 1 in its shortcut, then flatten and dense 3.
std::vector<LayerSpec> residual_layers();
/// Two levels as in a U-Net: convolutions, pools, and skips around them that are concatenated. Ends in a convolution to
/// 2 channels at half the resolution: every layer is free of the resolution.
std::vector<LayerSpec> skip_layers();
/// Convolutions, batch norms, activations, dropout, pools, adds and concats that read any earlier output of fitting
/// shape, then flatten and dense 3. For samples of 8 positions an axis.
std::vector<LayerSpec> random_layers(std::uint64_t key);

/// The layers on samples of 8 positions on each of `axes` axes, with two channels.
ModelSettings branch_model(const std::vector<LayerSpec>& layers, int axes, bool fuse = true);

/// A model's output and gradients by calling its layers one by one, each tensor in memory of its own. `dy` is the
/// gradient of the output.
struct StepByStep {
  std::vector<float> y, grads;
};
StepByStep step_by_step(Backend& backend, Model& model, const StepContext& step, ConstTensor x, ConstSpan dy);

}  // namespace mrmf::test
