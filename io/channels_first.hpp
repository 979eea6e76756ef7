// Files whose channels come first, and are taken for others: channels come last unless the axes are named
// (io/axis_order.hpp).
#pragma once

#include "kernels/tensor.hpp"

namespace mrmf {

/// As many "channels" as this may be positions.
inline constexpr Index kManyChannels = 16;

/// Whether a sample that was read with its channels last may have them first: its first axis is shorter than the
/// others, and there are about as many "channels" as positions. (Samples of one axis: fewer positions than "channels".)
bool looks_channels_first(const Shape& sample);

}  // namespace mrmf
