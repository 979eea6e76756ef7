#include "mpi/wait.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "mpi/comm.hpp"

namespace mrmf::mpi {

void check(int code, const char* function, const char* caller, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw FaultError(std::string(function) + " failed on rank " + std::to_string(MpiSession::rank()) + ": " + text +
                   " (" + caller + ", line " + std::to_string(line) + ")");
}

FaultError overdue(const char* function, double limit) {
  return FaultError(
      fmt::format("rank {}: a call of the ranks together ({}) has not ended within {} s; another rank hangs or has "
                  "died (run.timeout sets the limit)",
                  MpiSession::rank(), function, limit));
}

// After a long wait, yields the core: the rank that it waits for may need it.
void wait_until(const std::function<bool()>& done, const char* function, double limit) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLong = 0.1;  // seconds
  const Clock::time_point begin = Clock::now();
  while (!done()) {
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (waited > kLong) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (limit > 0 && waited > limit) throw overdue(function, limit);
  }
}

Request::Request(Request&& other) noexcept
    : function_(other.function_), request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}

bool Request::test() {
  int done = 0;
  check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), function_);
  return done != 0;
}

namespace {

void watch(const std::stop_token& done, double limit, const char* function) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  wake.wait_for(lock, done, std::chrono::duration<double>(limit), [] { return false; });
  // wait_for's result does not help: it may be false for a stop that came as the wait began, whatever the condition
  // says.
  if (!done.stop_requested()) throw overdue(function, limit);
}

}  // namespace

Deadline::Deadline(double limit, const char* function) {
  if (limit > 0) watcher_ = std::jthread([=](const std::stop_token& done) { watch(done, limit, function); });
}

}  // namespace mrmf::mpi
