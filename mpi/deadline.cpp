#include "mpi/deadline.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "mpi/wait.hpp"

namespace mrmf::mpi {
namespace {

void watch(const std::stop_token& done, double limit, const char* function) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  if (wake.wait_for(lock, done, std::chrono::duration<double>(limit), [&] { return done.stop_requested(); })) return;
  throw overdue(function, limit);
}

}  // namespace

Deadline::Deadline(double limit, const char* function) {
  if (limit > 0) watcher_ = std::jthread([=](const std::stop_token& done) { watch(done, limit, function); });
}

}  // namespace mrmf::mpi
