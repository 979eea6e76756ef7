// Wall-clock seconds: of work that is measured, and of waits for other ranks, up to the time limit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace mrmf {

// Wall-clock seconds, and what several measurements of them come to.

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

// How long a rank waits for others before it takes one of them for hung or dead.

struct WaitLimit {
  double seconds = 0;  ///< 0: none
  /// Whether one of those waited for is stopped now: it neither hangs nor has died. Asked a few times a second at most.
  /// `late`: without that the wait would be over by now. Empty: it is not known.
  std::function<bool(bool late)> others_stopped{};
};

/// The time of one wait, as far as it counts: only while this process ran, and no other was known to be stopped. A
/// batch system suspends jobs (gang scheduling, preemption by suspension), and people suspend virtual machines and
/// laptops; with the process itself its waits stand still. Keeps a reference to the limit.
class WaitTimer {
 public:
  explicit WaitTimer(const WaitLimit& limit) : limit_(limit) {}

  /// Call again and again, much more often than every kMostBetweenUpdates.
  void update() {
    const Clock::time_point now = Clock::now();
    const double ran = std::min(seconds(now - last_update_), kMostBetweenUpdates);
    last_update_ = now;
    ran_ += ran;
    if (!stopped_) counted_ += ran;
    if (limit_.seconds <= 0 || !limit_.others_stopped) return;
    if ((counted_ > limit_.seconds && !stopped_) || seconds(now - asked_) > between_questions()) {
      asked_ = now;
      stopped_ = limit_.others_stopped(ran_ > limit_.seconds);
    }
  }
  bool over() const { return limit_.seconds > 0 && counted_ > limit_.seconds && !stopped_; }
  double counted() const { return counted_; }  ///< seconds

  /// What passes between two updates beyond this did not pass for this process: it was stopped, or found no core.
  static constexpr double kMostBetweenUpdates = 0.1;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
  double between_questions() const { return std::min(0.5, limit_.seconds / 8); }

  const WaitLimit& limit_;
  Clock::time_point last_update_ = Clock::now(), asked_ = last_update_;
  double ran_ = 0, counted_ = 0;
  bool stopped_ = false;  // one of the others
};

}  // namespace mrmf
