// Normalisation of numbers with channels last: other units in which a network learns, and the way back.
#pragma once

#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// y = f(x) * scale[c] + shift[c] for channel c, with f(x) = log(1 + x) or x. Empty: nothing changes.
struct ChannelMap {
  bool log1p = false;
  std::vector<float> scale, shift;  ///< one of each per channel; both empty where only the logarithm is taken
  std::vector<float> fill{};        ///< per channel: y where x is NaN, which is missing; empty: NaN stays
  bool mask = false;  ///< goes with fill: behind these channels comes one that says what was there, and stays
  bool empty() const { return !log1p && scale.empty() && fill.empty(); }
  bool operator==(const ChannelMap&) const = default;
};

/// Applies the map to consecutive values of a sample with channels last; `first` is the index of the first of them.
void apply(const ChannelMap& map, Index first, Span values);
/// The way back: from y to x. Of a map that fills nothing.
void undo(const ChannelMap& map, Index first, Span values);

}  // namespace mrmf
