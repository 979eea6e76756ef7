// Ranks on cores that they share. ctest's mpi_bound runs this with threads that OpenMP binds, on unbound ranks.
#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>

#include <cstdlib>

#include "mpi/cores.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
namespace {

int cores_of_this_thread() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

TEST_CASE("cores: ranks that share them are not bound to the first") {
  Comm world = Comm::world();
  const bool expected = std::getenv("MRMF_EXPECT_PLACES") != nullptr;
  if (expected) {
    REQUIRE(omp_get_num_places() > 0);
    REQUIRE(cores_of_this_thread() == omp_get_place_num_procs(0));
  }
  RunConfig run;
  run.threads = 2;
  run.device = Device::cpu;
  const auto backend = make_backend(run, world);
  if (!expected) return;  // the launcher may have bound the ranks
  const auto all = static_cast<int>(process_cores().size());
  int first = 0, second = 0;
#pragma omp parallel num_threads(2)
  (omp_get_thread_num() == 0 ? first : second) = cores_of_this_thread();
  CHECK(first == all);
  CHECK(second == all);
}

}  // namespace
}  // namespace mrmf
