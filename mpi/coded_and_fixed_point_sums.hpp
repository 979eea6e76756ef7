// Sums over ranks that give the same bits wherever their values come from: of values that travel as codes, and of
// values as integers in a unit that all ranks share.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace mrmf {

// Sums whose values travel as codes: of fewer bits, and exact as codes. Each rank decodes and adds one piece of all
// workers' codes, in the workers' order, and gives the result to the others as codes (a reduce-scatter and an
// all-gather). So nothing is added packed, all ranks get the same bits, and these do not depend on how many ranks hold
// the workers.

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
  int workers = 1;        ///< workers of this rank, as of every other
  std::unique_ptr<SumCoding> coding;
  CodeMemory* memory = nullptr;
};

// Sums that do not depend on the order of addition: values become integers in a unit that all ranks share, and integers
// add exactly.

/// One rank's summands during such a sum: spans of values, all of one length. A block of values shares a unit, a power
/// of two. It gives the largest value of all summands 62 bits, less the bits that adding them up needs. Only what lies
/// below the unit is lost.
template <typename T>
class FixedPoint {
 public:
  /// Floats are many and share units. Doubles are few, and each has its own.
  static constexpr std::size_t kBlock = sizeof(T) == sizeof(float) ? 64 : 1;

  using Summands = std::vector<std::span<const T>>;

  /// This rank's summands, at least one, out of `all` on the ranks together.
  FixedPoint(Summands summands, int all) : summands_(std::move(summands)), bits_for_all_(std::ilogb(2 * all - 1)) {
    largest_.resize((size() + kBlock - 1) / kBlock);
    for (const std::span<const T> values : summands_)
      for (std::size_t b = 0; b < largest_.size(); ++b)
        largest_[b] = std::max(largest_[b], largest_of(values.subspan(b * kBlock, block_size(b))));
  }

  /// Each block's largest magnitude. Must be reduced to the maximum over all ranks before numbers() is called.
  std::span<double> largest() { return largest_; }

  /// The sums of this rank's summands in their blocks' units. Must be summed over the ranks.
  std::span<std::int64_t> numbers() {
    numbers_.assign(size(), 0);
    each_block([&](std::size_t first, std::size_t last, int shift) {
      if (!std::isfinite(largest_[first / kBlock])) return;
      const double scale = std::ldexp(1.0, shift);
      for (const std::span<const T> values : summands_)
        for (std::size_t i = first; i < last; ++i) numbers_[i] += std::llrint(static_cast<double>(values[i]) * scale);
    });
    return numbers_;
  }

  /// The sums as floating-point numbers, rounded once; NaN in blocks that contain a value that is not finite.
  void write(std::span<T> values) const {
    each_block([&](std::size_t first, std::size_t last, int shift) {
      const double unit =
          std::isfinite(largest_[first / kBlock]) ? std::ldexp(1.0, -shift) : std::numeric_limits<double>::quiet_NaN();
      for (std::size_t i = first; i < last; ++i) values[i] = static_cast<T>(static_cast<double>(numbers_[i]) * unit);
    });
  }

 private:
  std::size_t size() const { return summands_.front().size(); }
  std::size_t block_size(std::size_t block) const { return std::min(kBlock, size() - block * kBlock); }

  // Infinite when a value is not finite: MPI's maximum of a NaN depends on the order. Compares bits as integers, which
  // compilers vectorise: magnitudes have the order of their bits, with NaN behind infinity.
  static double largest_of(std::span<const T> values) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(float), std::int32_t, std::int64_t>;
    Bits most = 0;
    for (const T value : values) most = std::max(most, std::bit_cast<Bits>(std::abs(value)));
    const T largest = std::bit_cast<T>(most);
    return std::isfinite(largest) ? static_cast<double>(largest) : std::numeric_limits<double>::infinity();
  }

  template <typename Action>
  void each_block(Action&& action) const {
    for (std::size_t b = 0; b < largest_.size(); ++b)
      action(b * kBlock, b * kBlock + block_size(b), shift(largest_[b]));
  }

  // Since |value| < 2^(ilogb(most) + 1), |value| 2^shift < 2^(62 - bits_for_all): the sum of all of them fits. The
  // smallest doubles keep fewer bits, so that scale and unit are not subnormal.
  int shift(double most) const {
    constexpr int kMost = 1000;
    return most > 0 && std::isfinite(most) ? std::min(61 - bits_for_all_ - std::ilogb(most), kMost) : 0;
  }

  Summands summands_;
  int bits_for_all_;  // the least b with at most 2^b summands
  std::vector<double> largest_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace mrmf
