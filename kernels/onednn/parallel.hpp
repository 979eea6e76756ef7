// Splitting a flat range over threads.
#pragma once

#include <algorithm>

#include "kernels/tensor.hpp"

namespace mrmf::onednn {

/// Calls body(first, count) on pieces of [0, total): whole cache lines, the same piece for the same thread each time.
template <class Body>
void for_ranges(Index total, const Body& body) {
  constexpr Index piece = 8192;  // floats: a few of them fit the L1 cache together
  const Index pieces = (total + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (Index p = 0; p < pieces; ++p) body(p * piece, std::min(piece, total - p * piece));
}

}  // namespace mrmf::onednn
