// When a run under way is saved, and whether it stops then.
#pragma once

#include "mpi/comm.hpp"
#include "src/config.hpp"
#include "src/signals.hpp"
#include "src/timer.hpp"

namespace mrmf {

/// Thrown on every rank of a team at the same step, once the run is saved; the program then ends with this exit code.
struct Stopped {
  static constexpr int exit_code = 75;  ///< EX_TEMPFAIL of sysexits.h: "the user is invited to retry"
};

class SaveTimes {
 public:
  /// Keeps a reference to `signals`.
  SaveTimes(const CheckpointConfig& config, const StopSignals& signals) : config_(config), signals_(&signals) {}

  struct Wish {
    bool save = false;
    int signal = 0;  ///< stop after saving: the number of the signal that one of the ranks got
  };
  /// Between two steps. Collective; the same on every rank of the team, whose root has the clock.
  Wish ask(Comm& team) const;
  /// After this many epochs of a training step.
  bool after_epoch(int epochs) const { return config_.epochs > 0 && epochs % config_.epochs == 0; }
  /// The run was saved just now: the minutes count from here.
  void saved() { since_ = {}; }

 private:
  CheckpointConfig config_;
  const StopSignals* signals_;
  Timer since_;
};

}  // namespace mrmf
