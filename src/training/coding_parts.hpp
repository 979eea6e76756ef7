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

/// Calls body(block of the piece) for all of them; the last may be shorter.
template <class Body>
void for_blocks(const SumPiece& piece, const Body& body) {
  for (std::size_t first = piece.first; first < piece.end(); first += kBlock)
    body(SumPiece{first, std::min(kBlock, piece.end() - first)});
}

/// What a coding is of, and where its sum goes.
struct Values {
  PackedTensors tensors;
  std::vector<WorkerValues> workers;
  Span result;
};

std::unique_ptr<SumCoding> make_levels(bool halves, int most, Values values);
std::unique_ptr<SumCoding> make_votes(std::uint64_t tie_key, Values values);
std::unique_ptr<SumCoding> make_bf16(Values values);
std::unique_ptr<SumCoding> make_scaled(Values values);

}  // namespace mrmf::coding
