#include "src/inspection/far_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace mrmf {
namespace {

constexpr Index kRows = 64, kElements = Index{1} << 22;  // looked at
constexpr Index kFewestTimes = 3;                        // times
constexpr double kRangesApart = 5;                       // ranges of all others

/// The smallest number of a channel, how often it occurs, and the one after it.
struct End {
  double value = std::numeric_limits<double>::infinity(), next = value;
  Index count = 0;
  void add(double x) {
    if (x < value) {
      next = value, value = x, count = 1;
    } else if (x == value) {
      ++count;
    } else {
      next = std::min(next, x);
    }
  }
};

/// Whether a number may be one that programs write where there is none: background, saturation and peaks that are
/// scaled to 1 are not. float32 has the largest integers of 32 and 64 bits as powers of two.
bool may_be_mark(double value) {
  const auto is_power = [](double x) { return std::exp2(std::round(std::log2(x))) == x; };
  constexpr double whole_floats = 1 << 24;
  const bool saturated = value >= 255 && (is_power(value + 1) || (value >= whole_floats && is_power(value)));
  return value < -1 || (value >= 900 && !saturated);
}

struct Channel {
  End low, high;  ///< of the numbers, and of the negative ones
  Index count = 0;
  void add(double x) {
    if (!std::isfinite(x)) return;
    ++count;
    low.add(x);
    high.add(-x);
  }
  /// The number that is far from all others, and their range.
  struct Far {
    double value, from, to;
    Index times;
  };
  std::optional<Far> far() const {
    const auto is_far = [](double gap, double range) { return range > 0 && gap > kRangesApart * range; };
    if (low.count >= kFewestTimes && may_be_mark(low.value) && is_far(low.next - low.value, -high.value - low.next))
      return Far{low.value, low.next, -high.value, low.count};
    if (high.count >= kFewestTimes && may_be_mark(-high.value) &&
        is_far(high.next - high.value, -high.next - low.value))
      return Far{-high.value, low.value, -high.next, high.count};
    return {};
  }
};

}  // namespace

std::string far_value_text(const Numbers& numbers, const std::string& name) {
  std::vector<Channel> channels(static_cast<std::size_t>(numbers.channels));
  const auto look_at = [&](ConstSpan row) {
    std::size_t c = 0;
    for (const float value : row) {
      channels[c].add(value);
      if (++c == channels.size()) c = 0;
    }
  };
  const Index most = std::max<Index>(1, kElements / (numbers.positions * numbers.channels));
  if (numbers.positions == 1) {  // rows of few numbers, which are read together
    const Index rows = std::min(numbers.samples, most);
    const NumberReader read = numbers.open({0, rows});
    for (Index row = 0; row < rows; ++row) look_at(read(row));
  } else {
    const Index rows = std::min({kRows, numbers.samples, most});
    for (Index i = 0; i < rows; ++i) {
      const Index row = i * numbers.samples / rows;
      look_at(numbers.open({row, 1})(row));
    }
  }
  for (std::size_t c = 0; c < channels.size(); ++c)
    if (const auto far = channels[c].far())
      return fmt::format(
          "{} stands {} times among {} numbers of '{}'{} that were looked at, and all others are {:g} to {:g}: if it "
          "marks missing numbers, give the data set the attribute _FillValue = {}, or store NaN",
          static_cast<float>(far->value), far->times, channels[c].count, name,
          channels.size() > 1 ? fmt::format(" (channel {})", c) : "", far->from, far->to,
          static_cast<float>(far->value));
  return "";
}

}  // namespace mrmf
