// Pieces of long arrays, which threads share.
#pragma once

#include <algorithm>

#include "kernels/cpu/shared_loop.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {

constexpr Index kPiece = 8192;  // so few floats that a few pieces fit the L1 cache together
constexpr Index pieces_of(Index total) { return (total + kPiece - 1) / kPiece; }

/// Calls body(first, count) on pieces of [0, total): whole cache lines, mostly the same piece for the same thread.
template <class Body>
void for_ranges(Index total, const Body& body) {
  share_out(pieces_of(total), omp_get_max_threads(), [&](Index first, Index last, int) {
    for (Index p = first; p < last; ++p) body(p * kPiece, std::min(kPiece, total - p * kPiece));
  });
}

}  // namespace mrmf::cpu
