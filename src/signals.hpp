// SIGTERM and SIGUSR1 as a wish to stop soon, looked at between training steps. Batch systems send them before a time
// limit and before taking a node away.
#pragma once

#include <string>

namespace mrmf {

/// Takes both signals for as long as it lives; before and after, they have the system's default action. One at a time.
/// The first signal is remembered. Another one ends the program at once, by that signal's default action, unless it
/// comes within a second of the first: mpirun and the batch system often both deliver the same one.
/// Its memory is static, the only such memory of the program: a signal handler is given no other.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int received() const;  ///< number of the first signal, 0 for none
};

/// "SIGTERM", "SIGUSR1".
std::string signal_name(int number);

}  // namespace mrmf
