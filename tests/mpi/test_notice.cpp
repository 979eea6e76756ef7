// A word from one rank to another that goes on working.
#include <doctest/doctest.h>

#include <optional>

#include "mpi/notice.hpp"

using namespace mrmf;

TEST_CASE("notice: it arrives once it was sent, and not before") {
  Comm world = Comm::world();
  const int last = world.size() - 1;
  if (last == 0) return;
  std::optional<Notice> notice;
  if (world.root() || world.rank() == last) notice.emplace(world, world.root() ? last : 0);
  world.barrier();
  if (notice) CHECK_FALSE(notice->arrived());
  world.barrier();
  if (world.root()) notice->send();
  if (world.rank() == last) {
    while (!notice->arrived()) {  // a time-out of the test is what fails here
    }
    CHECK(notice->arrived());
  }
  world.barrier();
  if (world.root()) CHECK_FALSE(notice->arrived());  // the last rank has said nothing yet
  world.barrier();
  if (notice) notice->finish();
  if (notice) CHECK(notice->arrived());
}
