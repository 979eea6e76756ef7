#include "tests/mpi/watchdog.hpp"

#include <cstdio>
#include <cstdlib>

namespace mrmf::test {

Watchdog::Watchdog(std::chrono::seconds limit, int rank) : limit_(limit), rank_(rank), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::progress(const std::string& where) {
  {
    const std::lock_guard lock(mutex_);
    where_ = where;
    ++steps_;
  }
  changed_.notify_all();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    const unsigned before = steps_;
    if (changed_.wait_for(lock, limit_, [&] { return done_ || steps_ != before; })) continue;
    std::fprintf(stderr, "rank %d: no progress for %lld s in: %s\n", rank_, static_cast<long long>(limit_.count()),
                 where_.c_str());
    std::fflush(stderr);
    // Not MPI_Abort: the main thread may be inside MPI. mpirun ends the other ranks when one dies.
    std::_Exit(4);
  }
}

}  // namespace mrmf::test
