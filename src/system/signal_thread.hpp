// A thread that takes the process's signals, so that none interrupts a computation.
//
// Where a signal has a handler, the kernel writes some kilobytes below the stack pointer of the thread that takes it.
// oneDNN's products of matrices let the stack pointer point into the heap while they run (up to 3.11.1; its issue
// 4845), so a signal that a batch system sends to save a run would overwrite what lies there: weights, or the heap's
// own lists.
#pragma once

#include <csignal>
#include <semaphore>
#include <thread>

namespace mrmf {

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

}  // namespace mrmf
