// The geometry of a convolution or pooling from a spec and an input shape: padding, defaults, checks; where max
// pooling keeps its winners; and the reach of a network of windows: what each position of its output depends on.
#pragma once

#include <optional>
#include <vector>

#include "kernels/tensor.hpp"
#include "layers/layer.hpp"
#include "layers/network.hpp"
#include "layers/spec.hpp"

namespace mrmf {

// The geometry of a convolution or pooling from a spec and an input shape: padding, defaults, checks. Also the place
// where max pooling keeps its winners.

/// ConfigError when the layer cannot be built on this input.
ConvGeometry conv_geometry(const Shape& in, const LayerSpec& spec);
/// As a convolution; its input has positions.
ConvGeometry locally_connected_geometry(const Shape& in, const LayerSpec& spec);
/// The geometry of the convolution whose data gradient a transposed convolution is: its `in` is the layer's output, its
/// out() the layer's input.
ConvGeometry conv_transpose_geometry(const Shape& in, const LayerSpec& spec);
PoolGeometry pool_geometry(const Shape& in, const LayerSpec& spec);
/// How far from an output position local contrast normalisation looks along an axis, either way: a window of windows.
Index contrast_reach(const LayerSpec& spec, std::size_t axis);
ContrastGeometry contrast_geometry(const Shape& in, const LayerSpec& spec, const LayerPosition& position);
UpsampleGeometry upsample_geometry(const Shape& in, const LayerSpec& spec);

/// The output of a layer whose spatial sizes become `spatial`.
Shape output_shape(const Shape& in, const Extent& spatial, Index channels);

/// A window along one axis: output o sees the input positions from o * stride - before on, `reach` of them. Turned
/// round (conv_transpose), input i adds to so many outputs.
struct AxisWindow {
  Index reach = 1, stride = 1, before = 0;
};
/// Rounded up and down for positions before the first one, too; b > 0.
constexpr Index ceil_div(Index a, Index b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
constexpr Index floor_div(Index a, Index b) { return -ceil_div(-a, b); }

/// The sizes of the used axes, the last `axes` of the extent.
inline std::vector<Index> used_axes(const Extent& extent, int axes) { return {extent.end() - axes, extent.end()}; }
/// They as a text: "4", "3x3x3".
std::string to_string(const Extent& extent, int axes);

/// FaultError unless a batch norm's input has all positions that its statistics are to be of.
void require_within(const std::optional<Box>& counted, const Shape& in);

/// ConfigError "<layer>: <what>" unless the fact holds. The layer is named by its spec's name, else its kind.
void require(bool fact, const LayerSpec& spec, const std::string& what);

/// Floats of cache for max pooling's winners: one byte per output element, kept from forward to backward.
constexpr Index winner_floats(Index elements) { return (elements + Index{sizeof(float)} - 1) / Index{sizeof(float)}; }

inline std::span<std::uint8_t> winners(Span cache, Index elements) {
  return {reinterpret_cast<std::uint8_t*>(cache.data()), static_cast<std::size_t>(elements)};
}

// How far a network of windows looks: what each position of its output depends on.

struct Reach {
  /// Positions of the input, along each axis, in whose steps the network repeats itself: what its strides and poolings
  /// divide by at the deepest place.
  Extent step{1, 1, 1};
  /// Positions in front of and behind a block of `step`, in whole steps, that the block's output depends on. Padding
  /// counts as positions.
  Extent before{0, 0, 0}, after{0, 0, 0};
  /// The output depends on all positions, as behind a flatten or a norm over positions, or on where a box lies, as with
  /// weights of a position's own.
  bool whole = false;
};

/// The reach of layers whose sizes are resolved for all axes, with as many positions in the output as in the input.
/// Does not need the sizes of samples.
Reach reach_of(const std::vector<LayerSpec>& layers);

}  // namespace mrmf
