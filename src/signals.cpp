#include "src/signals.hpp"

#include <csignal>
#include <ctime>

#include <atomic>
#include <cstdint>

namespace mrmf {
namespace {

std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_time{0};  // milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t kSameSignal = 1000;  // milliseconds

// clock_gettime, signal and raise may be called in a handler.
std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

extern "C" void remember(int number) {
  if (first_signal == 0) first_time = now();  // before the number: another thread may get the next signal
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number) || now() - first_time <= kSameSignal) return;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void set(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  set(remember);
}

StopSignals::~StopSignals() { set(SIG_DFL); }

int StopSignals::received() const { return first_signal; }

std::string signal_name(int number) { return number == SIGTERM ? "SIGTERM" : "SIGUSR1"; }

}  // namespace mrmf
