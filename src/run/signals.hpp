// SIGINT (Ctrl-C), SIGTERM and SIGUSR1 as a wish to stop soon, looked at between training steps. Batch systems send the
// last two before a time limit and before taking a node away. With them, when a run under way is saved and its ranks
// are compared.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/system/timer.hpp"

namespace mrmf {

/// Takes the signals for as long as it lives; before and after, they have the system's default action. SIGINT stays
/// ignored where it was (as for a shell's background jobs). One of these two classes at a time.
///
/// The first signal is remembered. Another one ends the program at once, by that signal's default action, unless it
/// comes within a second of the first: mpirun and the batch system often both deliver the same one. SIGINT after SIGINT
/// is a user who means it, from a tenth of a second on.
/// Its memory is static, the only such memory of the program: a signal handler is given no other.
class StopSignals {
 public:
  /// `tells`: says on stderr what a signal does when it comes; of several ranks one should.
  explicit StopSignals(bool tells = false);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int received() const;  ///< number of the first signal, 0 for none
};

/// Before there is anything to save: for as long as it lives, each of the signals ends the program at once, by its
/// default action, with a line on stderr that says so where it `tells`.
class SignalsBeforeTraining {
 public:
  explicit SignalsBeforeTraining(bool tells);
  ~SignalsBeforeTraining();
  SignalsBeforeTraining(const SignalsBeforeTraining&) = delete;
  SignalsBeforeTraining& operator=(const SignalsBeforeTraining&) = delete;
};

/// "SIGINT", "SIGTERM", "SIGUSR1".
std::string signal_name(int number);

/// Thrown on every rank of a team at the same step, once the run is saved; the program then ends with this exit code.
struct Stopped {
  static constexpr int exit_code = 75;  ///< EX_TEMPFAIL of sysexits.h: "the user is invited to retry"
  int signal = 0;                       ///< the one that one of the ranks got
};

/// When a run under way is saved, when its ranks are compared, and whether it stops.
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
