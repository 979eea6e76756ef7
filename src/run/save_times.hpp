// When a run under way is saved, when its ranks are compared, and whether it stops.
#pragma once

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/signals.hpp"
#include "src/system/timer.hpp"

namespace mrmf {

/// Thrown on every rank of a team at the same step, once the run is saved; the program then ends with this exit code.
struct Stopped {
  static constexpr int exit_code = 75;  ///< EX_TEMPFAIL of sysexits.h: "the user is invited to retry"
  int signal = 0;                       ///< the one that one of the ranks got
};

class SaveTimes {
 public:
  /// Keeps a reference to `signals`.
  SaveTimes(const RunConfig& run, const StopSignals& signals)
      : checkpoint_(run.checkpoint), check_ranks_(run.check_ranks), signals_(&signals) {}

  struct Wish {
    bool save = false;
    bool compare = false;  ///< the parameters of the team's ranks
    int signal = 0;        ///< stop after saving: the number of the signal that one of the ranks got
  };
  /// Between two steps. Collective; the same on every rank of the team, whose root has the clock.
  Wish ask(Comm& team) const;
  /// After this many epochs of a training step.
  bool after_epoch(int epochs) const { return checkpoint_.epochs > 0 && epochs % checkpoint_.epochs == 0; }
  /// The run was saved just now: the minutes count from here.
  void saved() { saved_ = {}; }
  void compared() { compared_ = {}; }  ///< likewise the ranks

 private:
  CheckpointConfig checkpoint_;
  double check_ranks_;
  const StopSignals* signals_;
  Timer saved_, compared_;
};

}  // namespace mrmf
