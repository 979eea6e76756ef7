#include "mpi/wait.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "mpi/comm.hpp"
#include "mpi/session.hpp"

namespace mrmf::mpi {
namespace {

// One for the process, as MPI's progress is: any call of MPI may touch the memory of any other.
std::atomic<bool> abandoned{false};

}  // namespace

void check(int code, const char* function, const char* caller, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw FaultError(std::string(function) + " failed on rank " + std::to_string(MpiEnvironment::rank()) + ": " + text +
                   " (" + caller + ", line " + std::to_string(line) + ")");
}

FaultError overdue(const char* function, double seconds) {
  return FaultError(
      fmt::format("rank {}: a call of the ranks together ({}) has not ended within {} s; another rank hangs or has "
                  "died (run.timeout sets the limit)",
                  MpiEnvironment::rank(), function, seconds));
}

// After a long wait, yields the core: the rank that it waits for may need it.
void wait_until(const std::function<bool()>& done, const char* function, const WaitLimit& limit) {
  constexpr double kLong = 0.1;  // seconds
  WaitTimer timer(limit);
  while (!done()) {
    timer.update();
    if (timer.counted() > kLong) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (timer.over()) throw overdue(function, limit.seconds);
  }
}

bool abandoned_calls() { return abandoned; }
void abandon_calls() { abandoned = true; }

Request::Request(Request&& other) noexcept
    : function_(other.function_), request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}

bool Request::test() {
  int done = 0;
  check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), function_);
  return done != 0;
}

namespace {

void watch(const std::stop_token& done, const WaitLimit& limit, const char* function) {
  constexpr std::chrono::milliseconds kBetweenUpdates(50);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  // wait_for's result does not help: it may be false for a stop that came as the wait began, whatever the condition
  // says.
  for (WaitTimer timer(limit); !done.stop_requested(); timer.update()) {
    if (timer.over()) throw overdue(function, limit.seconds);
    wake.wait_for(lock, done, kBetweenUpdates, [] { return false; });
  }
}

}  // namespace

Deadline::Deadline(WaitLimit limit, const char* function) {
  if (limit.seconds <= 0) return;
  watcher_ =
      std::jthread([limit = std::move(limit), function](const std::stop_token& done) { watch(done, limit, function); });
}

}  // namespace mrmf::mpi
