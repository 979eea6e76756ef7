// Clock of a run: its seconds, and where those of the current epoch went.
#pragma once

#include "kernels/collectives.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/run/records.hpp"
#include "src/run/train_state.hpp"

namespace mrmf {

/// A clock for a run and its epochs. An epoch's seconds start at the end of the previous one. So building and fusing
/// models count in the next epoch, and writing checkpoints counts where it happens.
class EpochClock {
 public:
  /// `elapsed` is the seconds that the run has already taken.
  explicit EpochClock(double elapsed) : earlier_(elapsed), epoch_start_(elapsed) {}

  /// The run's seconds: `elapsed`, the time since this clock was made, and that of earlier starts of the run.
  double total_seconds() const { return earlier_ + since_.seconds(); }
  void leave_out(double seconds) { earlier_ -= seconds; }

  /// This rank's times in the current epoch. Whoever does the work adds to them.
  EpochTime& time() { return time_; }
  /// Adds the time of sums over ranks that were waited for while time().compute ran.
  void add(const SumTime& sums);

  /// Ends the epoch: records where its seconds went, over the team's ranks. Collective.
  void end_epoch(EpochRecord& record, Comm& team);

  /// Saves the clock in a state, so that a later start of the run can continue from there. Collective.
  void save(TrainState& state, Comm& team) const;
  void resume_from(const TrainState& state);

 private:
  Timer since_;
  double earlier_;
  double epoch_start_;  // in total_seconds()
  EpochTime time_;
};

}  // namespace mrmf
