// The thread that takes signals, and what they ask of a run.
#include "src/run/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>
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

namespace {

struct StopSignal {
  int number;
  std::string_view name;
  bool stays_ignored = false;  ///< if it was when the program started: by a shell's `&`, by nohup
};

// SIGHUP: the terminal or the connection is gone. SIGXCPU: the soft limit on CPU time (`ulimit -t`, Grid Engine).
constexpr std::array kSignals{StopSignal{SIGINT, "SIGINT", true}, StopSignal{SIGTERM, "SIGTERM"},
                              StopSignal{SIGHUP, "SIGHUP", true}, StopSignal{SIGUSR1, "SIGUSR1"},
                              StopSignal{SIGUSR2, "SIGUSR2"},     StopSignal{SIGXCPU, "SIGXCPU"}};
static_assert(std::ranges::equal(kSignals, kEndingSignals, {}, &StopSignal::number));

std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_time{0};  // milliseconds
std::atomic<bool> telling{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t kSameSignal = 1000, kSameKey = 100;  // milliseconds

constexpr std::string_view name_of(int number) {
  for (const StopSignal& signal : kSignals)
    if (signal.number == number) return signal.name;
  return "a signal";
}

// A handler may call clock_gettime, write, signal and raise.
std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

void tell(int number, std::string_view what) {
  if (!telling) return;
  // In one call, or what another thread writes comes between.
  std::array<char, 256> text{};
  std::size_t size = 0;
  for (const std::string_view part : {std::string_view("\nmrmf: "), name_of(number), what, std::string_view("\n")})
    size += part.copy(text.data() + size, text.size() - size);
  if (write(STDERR_FILENO, text.data(), size) < 0) return;
}

extern "C" void remember(int number) {
  if (first_signal == 0) first_time = now();  // set before the number: another thread may get the next signal
  int first = 0;
  if (first_signal.compare_exchange_strong(first, number))
    return tell(number, ": stopping after this optimizer step, with a checkpoint; another one ends at once, without");
  if (number == SIGXCPU) return;  // the kernel repeats it every second of CPU time until the hard limit
  if (now() - first_time <= (number == SIGINT && first == SIGINT ? kSameKey : kSameSignal)) return;
  tell(number, " after another signal: ended without a checkpoint of the last steps");
  end_by_signal(number);
}

extern "C" void end_at_once(int number) {
  tell(number, " before training began: ended; nothing is lost, run the same command again");
  end_by_signal(number);
}

void set(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // reads and writes under way continue
  for (const StopSignal& signal : kSignals) {
    struct sigaction before {};
    if (signal.stays_ignored && sigaction(signal.number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN)
      continue;
    sigaction(signal.number, &action, nullptr);
  }
}

}  // namespace

StopSignals::StopSignals(bool tells) {
  first_signal = 0;
  telling = tells;
  set(remember);
}

// A run that was told to stop is told again: by mpirun and by the batch system, or every second (SIGXCPU).
StopSignals::~StopSignals() {
  telling = false;
  if (first_signal == 0) set(SIG_DFL);
}

int StopSignals::received() const { return first_signal; }

void handle_signals_before_training(bool tells) {
  telling = tells;
  set(end_at_once);
}

void say_no_more_of_signals() { telling = false; }

void outlast_a_signal() {
  first_signal = 0;
  telling = false;
  set(remember);
}

SignalsBeforeTraining::SignalsBeforeTraining(bool tells) { handle_signals_before_training(tells); }

SignalsBeforeTraining::~SignalsBeforeTraining() { set(SIG_DFL); }

std::string signal_name(int number) { return std::string(name_of(number)); }

// One maximum carries everything: a signal's number and, in quarters below it, what the root's clock says.
SavePolicy::SaveDecision SavePolicy::ask(Comm& team) const {
  constexpr double save = 0.5, compare = 0.25;
  const auto due = [](double minutes, const Timer& since) { return minutes > 0 && since.seconds() >= 60 * minutes; };
  double decision = signals_->received();
  if (decision == 0 && team.root())
    decision = (due(checkpoint_.minutes, saved_) ? save : 0) + (due(check_ranks_, compared_) ? compare : 0);
  if (team.size() > 1) decision = team.max(decision);
  const double clock = decision - std::floor(decision);
  return {decision >= save, clock == compare || clock == save + compare, static_cast<int>(decision)};
}

}  // namespace mrmf
