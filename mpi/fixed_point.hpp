// Sums that no order of adding changes: values become integers in a unit that all ranks share, and integers add
// exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mrmf {

/// One rank's values on their way through such a sum. A block of values shares a unit: a power of two that gives the
/// largest value of all ranks 62 bits, less those that adding up the ranks takes. What is lost lies below that unit.
template <typename T>
class FixedPoint {
 public:
  /// Floats come in great numbers and share units; doubles are few and have each their own.
  static constexpr std::size_t kBlock = sizeof(T) == sizeof(float) ? 64 : 1;

  FixedPoint(std::span<const T> values, int ranks) : values_(values), bits_for_ranks_(std::ilogb(2 * ranks - 1)) {
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
      double most = 0;
      for (const T value : values.subspan(first, std::min(kBlock, values.size() - first))) {
        // Infinite where a value is not finite: MPI's maximum of a NaN depends on the order.
        most = std::isfinite(value) ? std::max(most, std::abs(static_cast<double>(value)))
                                    : std::numeric_limits<double>::infinity();
        if (!std::isfinite(most)) break;
      }
      largest_.push_back(most);
    }
  }

  /// Each block's largest magnitude: to be made the largest over all ranks before numbers() is called.
  std::span<double> largest() { return largest_; }

  /// The values in their blocks' units: to be summed over the ranks.
  std::span<std::int64_t> numbers() {
    numbers_.resize(values_.size());
    each_block([&](std::size_t first, std::size_t last, int shift) {
      const double scale = std::ldexp(1.0, shift);
      for (std::size_t i = first; i < last; ++i)
        numbers_[i] = std::isfinite(values_[i]) ? std::llrint(static_cast<double>(values_[i]) * scale) : 0;
    });
    return numbers_;
  }

  /// The sums as floating-point numbers, rounded once; NaN in blocks with a value that is not finite.
  void write(std::span<T> values) const {
    each_block([&](std::size_t first, std::size_t last, int shift) {
      const double unit =
          std::isfinite(largest_[first / kBlock]) ? std::ldexp(1.0, -shift) : std::numeric_limits<double>::quiet_NaN();
      for (std::size_t i = first; i < last; ++i) values[i] = static_cast<T>(static_cast<double>(numbers_[i]) * unit);
    });
  }

 private:
  template <typename Action>
  void each_block(Action&& action) const {
    for (std::size_t first = 0; first < values_.size(); first += kBlock)
      action(first, std::min(first + kBlock, values_.size()), shift(largest_[first / kBlock]));
  }

  // |value| < 2^(ilogb(most) + 1), so |value| 2^shift < 2^(62 - bits_for_ranks): the sum of all ranks fits. Of the
  // smallest doubles less is kept, so that scale and unit are no subnormal numbers.
  int shift(double most) const {
    constexpr int kMost = 1000;
    return most > 0 && std::isfinite(most) ? std::min(61 - bits_for_ranks_ - std::ilogb(most), kMost) : 0;
  }

  std::span<const T> values_;
  int bits_for_ranks_;  // the least b with ranks <= 2^b
  std::vector<double> largest_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace mrmf
