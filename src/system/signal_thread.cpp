#include "src/system/signal_thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "io/files/output_file.hpp"

namespace mrmf {
namespace {

sigset_t ending_signals() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int number : kEndingSignals) sigaddset(&set, number);
  return set;
}

}  // namespace

SignalThread::SignalThread() {
  const sigset_t ending = ending_signals();
  pthread_sigmask(SIG_BLOCK, &ending, &before_);
  if (std::ranges::all_of(kEndingSignals, [&](int number) { return sigismember(&before_, number) == 1; })) return;
  try {
    taker_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "mrmf signals");
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
      ended_.acquire();
    });
  } catch (const std::system_error&) {  // a limit on threads: what needs more of them will say so
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

SignalThread::~SignalThread() {
  if (!taker_.joinable()) return;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  ended_.release();
  taker_.join();
}

void let_signals_in() {
  const sigset_t ending = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
}

}  // namespace mrmf
