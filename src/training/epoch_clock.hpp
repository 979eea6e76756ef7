// The seconds of a run, and what those of the epoch under way went to.
#pragma once

#include "kernels/step.hpp"
#include "src/run/records.hpp"
#include "src/run/train_state.hpp"
#include "src/system/timer.hpp"

namespace mrmf {

/// An epoch's seconds run from the end of the one before: building models and fusing them are in the first epoch after,
/// and writing checkpoints is where it happens.
class EpochClock {
 public:
  /// `elapsed`: seconds that the run has taken already.
  explicit EpochClock(double elapsed) : earlier_(elapsed), epoch_start_(elapsed) {}

  /// Of the run: what had elapsed when this clock was made and since, and what earlier starts of the run had taken.
  double total_seconds() const { return earlier_ + since_.seconds(); }
  void leave_out(double seconds) { earlier_ -= seconds; }

  /// Of this rank and the epoch under way; added to where the work is done.
  EpochTime& time() { return time_; }
  /// Sums over ranks that were waited for while time().compute ran.
  void add(const SumTime& sums);

  /// Ends the epoch: its seconds, by what they went to, over the team's ranks. Collective.
  void end_epoch(EpochRecord& record, Comm& team);

  /// Notes in a state where the clock stands, for a later start of the run to go on from. Collective.
  void save(TrainState& state, Comm& team) const;
  void go_on_from(const TrainState& state);

 private:
  Timer since_;
  double earlier_;
  double epoch_start_;  // in total_seconds()
  EpochTime time_;
};

}  // namespace mrmf
