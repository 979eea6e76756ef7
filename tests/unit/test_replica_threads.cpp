// Threads that work together: who computes at a time, barriers, errors.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <vector>

#include "io/rows/sample_reader.hpp"
#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "src/training/deterministic_replicas.hpp"

using namespace mrmf;

namespace {

/// Memory for few more threads' stacks than there are, for as long as this lives. (The limit on processes does not hold
/// for root.)
class RoomForFewThreads {
 public:
  RoomForFewThreads() {
    std::size_t pages = 0, stack = 0;
    std::ifstream("/proc/self/statm") >> pages;
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_destroy(&attributes);
    getrlimit(RLIMIT_AS, &before_);
    rlimit few = before_;
    // Half a stack stays free for all else.
    few.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + 8 * stack + stack / 2;
    setrlimit(RLIMIT_AS, &few);
  }
  RoomForFewThreads(const RoomForFewThreads&) = delete;
  RoomForFewThreads& operator=(const RoomForFewThreads&) = delete;
  ~RoomForFewThreads() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("replica threads: every member does its part, job after job, and not more than allowed at a time") {
  for (const int at_once : {1, 3, 20}) {
    ReplicaThreads workers(7, at_once);
    std::vector<int> done(7);
    std::atomic<int> now = 0, most = 0;
    for (int job = 0; job < 50; ++job)
      workers.run([&](int i) {
        const int busy = ++now;
        int before = most;
        while (before < busy && !most.compare_exchange_weak(before, busy)) {
        }
        ++done[static_cast<std::size_t>(i)];
        --now;
      });
    CHECK(done == std::vector<int>(7, 50));
    CHECK(most <= at_once);
  }
}

TEST_CASE(
    "replica threads: a barrier's action sees what all have brought, and all see what it leaves; who is done is not "
    "waited for") {
  ReplicaThreads workers(5, 2);
  std::vector<int> brought(5);
  int total = 0, barriers = 0;
  std::vector<int> seen(5);
  const auto at_barrier = [&] {
    total = std::accumulate(brought.begin(), brought.end(), 0);
    ++barriers;
  };
  const auto job = [&](int i) {
    if (i == 4) return;
    for (int round = 1; round <= 20; ++round) {
      brought[static_cast<std::size_t>(i)] = round * (i + 1);
      workers.barrier();
      if (total == round * 10) ++seen[static_cast<std::size_t>(i)];
      workers.barrier();  // nobody writes while others read
    }
  };
  workers.run(job, at_barrier);
  CHECK(barriers == 40);
  CHECK(seen == std::vector<int>{20, 20, 20, 20, 0});
}

TEST_CASE(
    "replica threads: an error in a job or at a barrier ends the others' waiting, reaches the caller, and the next job "
    "runs") {
  ReplicaThreads workers(4, 2);
  const auto fail_in_job = [&](int i) {
    if (i == 2) throw DataError("the third failed");
    workers.barrier();
  };
  CHECK_THROWS_WITH_AS(workers.run(fail_in_job), "the third failed", DataError);
  const auto wait = [&](int) { workers.barrier(); };
  CHECK_THROWS_WITH_AS(workers.run(wait, [] { throw FaultError("no barrier"); }), "no barrier", FaultError);
  std::atomic<int> done = 0;
  workers.run([&](int) { workers.barrier(), ++done; });
  CHECK(done == 4);
}

TEST_CASE("replica threads: threads that cannot be started are an error, and those that could be end") {
  const RoomForFewThreads room;
  CHECK_THROWS_WITH_AS(ReplicaThreads(500, 1), doctest::Contains("cannot start 500 threads"), FaultError);
  CHECK_THROWS_WITH_AS(ReaderPool(500, [](const ReadTask&, Scratch&) {}),
                       doctest::Contains("cannot start 500 threads that read data"), FaultError);
  CHECK_THROWS_WITH_AS(make_cpu_backend(500), doctest::Contains("cannot start 500 threads to compute with"),
                       FaultError);
}
