// Digits that float32, in which training computes and averages are written, does not keep of what files hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/values/element.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// Whether numbers of this type may have digits that float32 has not.
bool is_wide(ElementType type);
/// The distance of neighbours in float32.
double step_at(double value);
/// Nothing is counted, and few things are measured in whole numbers, so far from 0.
bool is_like_identifier(double value);

/// Sums of one channel's numbers, around the first of them, which keeps the sums exact enough.
struct ChannelSums {
  ExactNumber origin = 0;
  double count = 0;
  ExactNumber x = 0, xx = 0, errors = 0;
  bool same = true;   ///< all numbers are
  bool whole = true;  ///< whether the numbers are of an integer type
  void add(ExactNumber value);
  ExactNumber mean() const { return origin + x / count; }
  double deviation() const;
  double error() const;  ///< the root of the mean square by which rounding moves them
  /// Whether that is more than a hundredth of the deviation, which is more than the rounding of a double.
  bool loses_digits() const;
  static constexpr double kMostError = 0.01;
};

/// "holds numbers around 2.46e+06 with a deviation of 0.1 in a channel, and float32, in which training computes, knows
/// only every 0.25 there; subtract 2459000 before storing them". `use`: "training computes".
std::string lost_text(const ChannelSums& sums, double deviation, const std::string& channel, const std::string& use);

/// Sums of a data set's channels by some of its rows, where its type may have digits that float32 has not.
class DigitSums {
 public:
  /// A row has `per_row` samples of this shape, channels last.
  DigitSums(ElementType type, Index per_row, const Shape& sample);
  /// The numbers of a row, as they are stored; `whole`: they are of an integer type.
  void add_row(const std::byte* row, bool whole);
  /// lost_text() of the first channel that loses digits; "": none does.
  std::string lost_text(const std::string& use) const;

 private:
  ElementType type_;
  Index per_row_;
  Shape sample_;
  std::vector<ChannelSums> sums_;  // empty: the type has none
};

}  // namespace mrmf
