// Wall-clock seconds, and what several measurements of them come to.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace mrmf {

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Seconds since the start or the last lap.
  double lap() {
    const auto now = Clock::now();
    const double s = std::chrono::duration<double>(now - lap_).count();
    lap_ = now;
    return s;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), lap_ = start_;
};

/// The middle value, the upper of two; `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace mrmf
