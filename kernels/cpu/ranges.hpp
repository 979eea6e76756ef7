// Pieces of long arrays, shared out over threads.
#pragma once

#include <algorithm>

#include "kernels/tensor.hpp"

namespace mrmf::cpu {

constexpr Index kPiece = 8192;  // so few floats that a few pieces fit the L1 cache together
constexpr Index pieces_of(Index total) { return (total + kPiece - 1) / kPiece; }

/// Calls body(first, count) on pieces of [0, total): whole cache lines, always the same piece for the same thread.
template <class Body>
void for_ranges(Index total, const Body& body) {
  const Index pieces = pieces_of(total);
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (Index p = 0; p < pieces; ++p) body(p * kPiece, std::min(kPiece, total - p * kPiece));
}

}  // namespace mrmf::cpu
