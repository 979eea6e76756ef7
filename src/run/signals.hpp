// Signals: the thread that takes them, so that none interrupts a computation, and what they ask of a run: SIGINT
// (Ctrl-C), SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU ask it to stop soon. Also when a run under way is saved and
// its ranks are compared.
#pragma once

#include <csignal>
#include <exception>
#include <semaphore>
#include <string>
#include <thread>

#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

// A thread that takes the process's signals, so that none interrupts a computation.
//
// Where a signal has a handler, the kernel writes some kilobytes below the stack pointer of the thread that takes it.
// oneDNN's products of matrices let the stack pointer point into the heap while they run (up to 3.11.1; its issue
// 4845), so a signal that a batch system sends to save a run would overwrite what lies there: weights, or the heap's
// own lists.

/// As long as it lives, the signals that end a program (io/files/output_file.hpp) stay away from the thread that
/// made it and from all that this thread starts; handlers and default actions take place in a thread that does nothing
/// else. Does nothing where these signals are kept from the calling thread already, or where no thread can be started.
/// Make it before there are threads that compute: those keep taking signals. What raise() sends to a thread waits until
/// it ends.
class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  sigset_t before_{};
  std::binary_semaphore ended_{0};
  std::thread taker_;
};

/// For a child between fork and exec, whose program knows nothing of its parent's threads. May be called there.
void let_signals_in();

// Stop signals: SIGINT (Ctrl-C), SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU ask a run to stop soon; training checks
// them between steps. Batch systems send all but the first before a limit and before they take a node away, each its
// own; SIGHUP comes from a terminal that closes, too. Also decides when a run under way is saved and its ranks are
// compared.

/// Handles the signals as long as it lives, and afterwards, too, if there was one; else they have the system's default
/// action before and after. SIGINT and SIGHUP stay ignored if they were (as for a shell's background jobs, and under
/// nohup). Only one object of these two classes may live at a time.
///
/// The first signal is remembered. Another one ends the program at once, by that signal's default action, unless it
/// comes within a second of the first: mpirun and the batch system often both deliver the same one. A second SIGINT
/// counts after a tenth of a second, because it comes from a user who means it. SIGXCPU never ends the program: the
/// kernel repeats it until the hard limit. Its memory is static, because a signal handler is given no other.
class StopSignals {
 public:
  /// `tells`: reports on stderr what an arriving signal does. One of several ranks should.
  explicit StopSignals(bool tells = false);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int received() const;  ///< number of the first signal, 0 for none
};

/// Handles signals before there is anything to save. As long as it lives, each signal ends the program at once by its
/// default action. If it `tells`, a line on stderr says so.
class SignalsBeforeTraining {
 public:
  explicit SignalsBeforeTraining(bool tells);
  ~SignalsBeforeTraining();
  SignalsBeforeTraining(const SignalsBeforeTraining&) = delete;
  SignalsBeforeTraining& operator=(const SignalsBeforeTraining&) = delete;
};

/// The same from the start of a program on, which will train: until an object of these classes lives.
void handle_signals_before_training(bool tells);

/// Signals end the process without a word from now on. Call it when a command is done: where one rank has ended with an
/// error, launchers send the others SIGTERM.
void say_no_more_of_signals();

/// One signal does nothing from now on; another one ends the process. Call it when a command is done and saved and only
/// MPI is left to end: a batch system's signal that comes then must not make a failure of it.
void outlast_a_signal();

/// "SIGINT", "SIGTERM", ...: of the signals above.
std::string signal_name(int number);

/// Thrown on every rank of a team at the same step, after the run was saved. The program then ends with this exit code.
struct Stopped : std::exception {
  static constexpr int exit_code = 75;  ///< EX_TEMPFAIL of sysexits.h: "the user is invited to retry"
  int signal = 0;                       ///< the signal that one of the ranks got; 0: it was the other team's
  explicit Stopped(int number = 0) : signal(number) {}
  const char* what() const noexcept override { return "stopped by a signal; the same call continues the run"; }
};

/// Decides when a run under way is saved, when its ranks are compared, and whether it stops.
class SavePolicy {
 public:
  /// Keeps a reference to `signals`.
  SavePolicy(const RunConfig& run, const StopSignals& signals)
      : checkpoint_(run.checkpoint), check_ranks_(run.check_ranks), signals_(&signals) {}

  struct SaveDecision {
    bool save = false;
    bool compare = false;  ///< compare the parameters of the team's ranks
    int signal = 0;        ///< stop after saving: number of the signal that one of the ranks got
  };
  /// Call between two steps. Collective; all ranks of the team get the same answer, by the root's clock.
  SaveDecision ask(Comm& team) const;
  /// Whether to save after this many epochs of a phase.
  bool after_epoch(int epochs) const { return checkpoint_.epochs > 0 && epochs % checkpoint_.epochs == 0; }
  /// The run was just saved: the minutes count from here.
  void saved() { saved_ = {}; }
  void compared() { compared_ = {}; }  ///< the ranks were just compared

 private:
  CheckpointConfig checkpoint_;
  double check_ranks_;
  const StopSignals* signals_;
  Timer saved_, compared_;
};

}  // namespace mrmf
