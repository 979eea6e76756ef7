// What each layer of a list reads, and where the list may be cut in two: names resolved to positions in the list.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "layers/spec.hpp"

namespace mrmf {

/// For each layer (or unit) the outputs it reads, in the order of its `from`. 0 is the network's input, i + 1 the
/// output of layer i.
using Wiring = std::vector<std::vector<std::size_t>>;

/// The wiring of named layers. ConfigError, which names the layer: it reads a name that no layer has, that comes later,
/// or that stands twice in its list; it reads several outputs or one, and must read one or several; or nobody reads its
/// output.
Wiring connect(const std::vector<LayerSpec>& layers);

/// Sets LayerSpec::bias_in_norm of each convolution whose only reader is a batch norm. That one takes the mean over the
/// batch away, and the bias with it: nothing of training depends on the bias, and its gradient is zero. So the
/// convolution leaves it out. The batch norm counts it in its running mean, which is that of the sum, and takes it off
/// again where it uses that.
void leave_biases_to_norms(std::vector<LayerSpec>& layers, const Wiring& wiring);

/// Whether any layer reads something other than the layer before.
bool has_branches(const Wiring& wiring);

/// Whether a name of BottomSettings::layers stands for this layer.
bool names_layer(const std::string& name, const LayerSpec& layer);

/// Index of the first layer of the top: the layer of that name; if it is empty the first flatten, else the first dense
/// layer, else the end. The top reads of the bottom only its last output. ConfigError where the named cut would divide
/// a branch, with the nearest that do not; a default cut moves down to the nearest one.
std::size_t find_cut(const std::vector<LayerSpec>& layers, const Wiring& wiring, const std::string& name);

/// For each layer whether it is in the top. ConfigError as find_cut(), or where a name stands for no layer.
std::vector<bool> top_layers(const std::vector<LayerSpec>& layers, const Wiring& wiring, const BottomSettings& bottom);

}  // namespace mrmf
