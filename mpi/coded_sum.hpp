// Sums whose values travel as codes: of fewer bits, and exact as codes. Each rank decodes and adds one piece of all
// workers' codes, in the workers' order, and gives the result to the others as codes (a reduce-scatter and an
// all-gather). So nothing is added packed, all ranks get the same bits, and these do not depend on how many ranks hold
// the workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mrmf {

/// Values of a sum, which are numbered from 0. Pieces begin at multiples of SumCoding::kBlock.
struct SumPiece {
  std::size_t first = 0, count = 0;
  std::size_t end() const { return first + count; }
};

/// Codes of what workers bring to a sum, and of its result. A worker is what has values of its own: a rank, or each of
/// a rank's shards. Every rank has as many, and the workers of the first rank come first.
class SumCoding {
 public:
  static constexpr std::size_t kBlock = 1024;
  virtual ~SumCoding() = default;
  /// Most bytes that the codes of so many values take, from a worker and of the result. The same on all ranks.
  virtual std::size_t code_bytes(std::size_t count) const = 0;
  virtual std::size_t result_bytes(std::size_t count) const = 0;
  /// Writes the codes of one of this rank's workers; returns their bytes.
  virtual std::size_t encode(int worker, const SumPiece& piece, std::span<std::byte> codes) = 0;
  /// Adds the codes of all workers and writes the result's; returns their bytes. Called on one rank for each piece.
  virtual std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                          std::span<std::byte> result) = 0;
  /// What the sum is, on every rank.
  virtual void decode(const SumPiece& piece, std::span<const std::byte> result) = 0;
};

/// Piece `part` of `count` values, of so many parts in whole blocks.
SumPiece sum_piece(std::size_t count, int part, int parts);

/// What such a sum does without messages, for workers that are all here: `ranks` of them add a piece each. For tests,
/// and for ranks that are emulated.
void sum_here(const std::vector<SumCoding*>& ranks, std::size_t count, int workers_per_rank);

/// Memory that sums take and give back. Must outlive them.
class CodeMemory {
 public:
  std::vector<std::byte> take(std::size_t bytes);
  void give_back(std::vector<std::byte>&& memory) { free_.push_back(std::move(memory)); }
  /// Bytes that sums have sent to other ranks since the last call.
  std::uint64_t take_sent();
  void count_sent(std::size_t bytes) { sent_ += bytes; }

 private:
  std::vector<std::vector<std::byte>> free_;
  std::uint64_t sent_ = 0;
};

/// Comm::start_sum() begins it.
struct CodedSum {
  std::size_t count = 0;  ///< values of each worker
  int workers = 1;        ///< of this rank, as of every other
  std::unique_ptr<SumCoding> coding;
  CodeMemory* memory = nullptr;
};

}  // namespace mrmf
