// Sums under way beside backward, and the time that they take.
#pragma once

#include <utility>
#include <vector>

#include "kernels/collectives.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// A sum that was started continues beside computation as far as MPI advances it by itself. Each later start, and
/// finish, advance all of them.
class PendingSums {
 public:
  /// start() begins a sum; what it does besides is waiting.
  template <class Start>
  void start(const Start& begin) {
    move_on();
    const Timer timer;
    under_way_.push_back(begin());
    count_waiting(timer);
    since_ = {};
  }
  void finish() {
    move_on();
    const Timer timer;
    for (PendingSum& sum : under_way_) sum.finish();
    under_way_.clear();
    count_waiting(timer);
  }
  /// Seconds within start() or finish() that went to computation.
  void computed(double seconds) { computed_ += seconds; }
  void waited(double seconds) { time_.waited += seconds; }
  SumTime take_time() { return std::exchange(time_, {}); }

 private:
  // Computation since the last MPI call has hidden the sums that are still under way. A sum that has ended meanwhile
  // may have ended early and is not counted.
  void move_on() {
    const double calculated = since_.seconds();
    const Timer timer;
    std::erase_if(under_way_, [](PendingSum& sum) { return sum.test(); });
    count_waiting(timer);
    if (!under_way_.empty()) time_.hidden += calculated;
  }
  void count_waiting(const Timer& timer) { time_.waited += timer.seconds() - std::exchange(computed_, 0); }

  std::vector<PendingSum> under_way_;
  double computed_ = 0;
  Timer since_;  // since the last MPI call
  SumTime time_;
};

}  // namespace mrmf
