// A timer of wall-clock seconds.
#pragma once

#include <chrono>

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

}  // namespace mrmf
