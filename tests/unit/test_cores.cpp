// Cores and OpenMP's places. ctest's unit_bound runs this with threads bound to places.
#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>

#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "io/rows/sample_reader.hpp"
#include "mpi/cores.hpp"
#include "src/training/deterministic_replicas.hpp"

namespace mrmf {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

TEST_CASE("cores: the first thread has its place, the process has all") {
  const bool bound = omp_get_num_places() > 0;
  if (std::getenv("MRMF_EXPECT_PLACES") != nullptr) REQUIRE(bound);
  const std::vector<int> all = process_cores();
  CHECK(static_cast<int>(all.size()) == omp_get_num_procs());
  if (bound)
    CHECK(static_cast<int>(cores_of_this_thread().size()) == omp_get_place_num_procs(0));
  else
    CHECK(cores_of_this_thread() == all);
}

TEST_CASE("cores: a thread that leaves its place has all, and so have readers and replicas") {
  const std::vector<int> all = process_cores();
  std::vector<int> helper;
  std::jthread([&] {
    leave_place();
    helper = cores_of_this_thread();
  }).join();
  CHECK(helper == all);

  std::vector<std::vector<int>> seen;
  std::mutex mutex;
  const auto look = [&] {
    const std::lock_guard lock(mutex);
    seen.push_back(cores_of_this_thread());
  };
  ReaderPool pool(2, [&](const ReadTask&, Scratch&) { look(); });
  ReaderPool::ReadGroup group;
  pool.submit(group, {ReadTask{}, ReadTask{}});
  pool.wait(group);
  ReplicaThreads replicas(2, 2);
  replicas.run(
      [&](int) {
#pragma omp parallel num_threads(1)
        look();
      },
      [] {});
  REQUIRE(seen.size() == 4);
  for (const std::vector<int>& cores : seen) CHECK(cores == all);
}

TEST_CASE("cores: a thread can be held to some") {
  const std::vector<int> all = process_cores();
  std::vector<int> held;
  std::jthread([&] {
    CHECK(CoreSet({all.back()}).hold_this_thread());
    held = cores_of_this_thread();
  }).join();
  CHECK(held == std::vector<int>{all.back()});
  CHECK(!CoreSet({}).hold_this_thread());
}

}  // namespace
}  // namespace mrmf
