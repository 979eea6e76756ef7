// A layer in front of a network: with it, a model that was trained on averaged data reads finer data
// (method.top = "stem"). The layer is a convolution, whose kernel and stride are the ratio of the two resolutions. It
// begins with an orthogonal basis over its window: first the mean of every channel, then differences. What lies behind
// it keeps its sizes, but for the channels that the network's first convolution reads. At first the model computes what
// the coarse one does on averaged data: that convolution has the coarse weights for the means, and zeros for the
// differences.
#pragma once

#include <cstddef>
#include <vector>

#include "layers/network.hpp"
#include "layers/spec.hpp"

namespace mrmf {

/// The layer's name. No other layer of such a network may have it.
/// Model files and exports have called it so ever since; many networks have a layer "stem" of their own.
inline constexpr const char* kStemLayer = "front";

/// What the layer reads: windows of so many positions, in samples of so many channels.
struct StemWindow {
  Extent ratio{1, 1, 1};
  Index channels = 1;

  Index filters() const { return channels * product(ratio); }
};

/// Index of the first convolution of named layers that can stand behind a stem. ConfigError, which names the layer:
/// several layers read the input or what is made of it before that convolution; a layer before it is neither a batch
/// norm nor an activation, so it mixes channels or positions; a layer is called "front"; there is no convolution.
std::size_t convolution_behind_stem(const std::vector<LayerSpec>& layers);

/// The layers behind their stem. ConfigError as above.
std::vector<LayerSpec> behind_stem(std::vector<LayerSpec> layers, const StemWindow& window);

/// What is not the coarse network's in layers that are put behind a stem: the stem, and the layers that it widens, up
/// to the first convolution. ConfigError as above.
BottomSettings new_layers(const std::vector<LayerSpec>& layers);

/// The stem's weights at first, (filters, positions..., channels): along an axis of f positions the k-th vector is
/// cos(pi (t + 1/2) k / f) (k > 0: sqrt 2) / f, and over several axes their products. Filter k * channels + c reads
/// channel c alone, so that the means come first.
std::vector<float> stem_weights(const StemWindow& window);

/// A coarse network, and the same layers behind a stem.
struct StemNetworks {
  const Network& coarse;
  const Network& finer;
};
/// Gives the finer network's arena what the coarse one's holds: each layer's values to the same layer, which is the
/// next in the list. A first convolution gets zeros for the differences, a batch norm before it gamma 1, beta 0, mean 0
/// and variance 1. The stem gets its weights. The arenas are in the host's memory, and laid out as the networks' own.
void give_params_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer);
void give_state_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer);
/// Moments: those of new_layers() are zero. requires: these are the finer network's bottom.
void give_moments_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer);

}  // namespace mrmf
