// What the codings of sums share. Private to src/training/*_coding.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "src/training/sum_coding.hpp"

namespace mrmf::coding {

constexpr std::size_t kBlock = SumCoding::kBlock;
constexpr std::size_t kScaled = 256;  ///< values with one scale

using Floats = std::array<float, kBlock>;

/// Calls body(block of the piece, its number) for all of them, which OpenMP's threads share; the last block may be
/// shorter. Blocks have nothing in common that a body changes.
template <class Body>
void for_blocks(const SumPiece& piece, const Body& body) {
  constexpr std::size_t kFewest = 32;  // fewer take no longer than to start the threads
  const std::size_t blocks = (piece.count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks >= kFewest)
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t first = piece.first + i * kBlock;
    body(SumPiece{first, std::min(kBlock, piece.end() - first)}, i);
  }
}

/// What a coding is of, and where its sum goes.
struct Values {
  PackedTensors tensors;
  std::vector<WorkerValues> workers;
  Span result;
  Span sum_residual{};
};

std::unique_ptr<SumCoding> make_levels(bool halves, int most, Values values);
std::unique_ptr<SumCoding> make_votes(std::uint64_t tie_key, Values values);
std::unique_ptr<SumCoding> make_bf16(Values values);
std::unique_ptr<SumCoding> make_scaled(Values values);

}  // namespace mrmf::coding
