// Batch norm's sums over a team, with the time they took.
#pragma once

#include <utility>

#include "kernels/backend.hpp"
#include "mpi/comm.hpp"
#include "src/timer.hpp"

namespace mrmf {

class TeamSum final : public RankSum {
 public:
  explicit TeamSum(Comm& team) : team_(&team) {}
  void sum(std::span<double> values) override {
    const Timer timer;
    team_->sum(values);
    seconds_ += timer.seconds();
  }
  /// Seconds since the last call.
  double take_seconds() { return std::exchange(seconds_, 0.0); }

 private:
  Comm* team_;
  double seconds_ = 0;
};

}  // namespace mrmf
