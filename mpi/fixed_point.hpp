// Sums that do not depend on the order of addition: values become integers in a unit that all ranks share, and integers
// add exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace mrmf {

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
