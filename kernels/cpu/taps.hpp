// The taps of a convolution's kernel, and the pairs of positions that each of them joins.
#pragma once

#include <vector>

#include "kernels/operations.hpp"

namespace mrmf::cpu {

/// An output position and the input position that a tap multiplies for it.
struct TapPair {
  Index out = 0, in = 0;
};

/// A tap of the kernel, and where it meets the input.
struct Tap {
  Index number = 0;
  std::vector<TapPair> pairs;
};

/// In the kernel's order. Pairs on padding are left out.
std::vector<Tap> taps_of(const ConvGeometry& geometry);

}  // namespace mrmf::cpu
