// Numbers that ranks draw (mpi/comm.hpp).
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "mpi/comm.hpp"

using namespace mrmf;

TEST_CASE("shared counter: every number is drawn once, and each rank's rise") {
  Comm world = Comm::world();
  constexpr std::int64_t all = 200;
  std::vector<std::int64_t> drawn(all);
  {
    SharedCounter counter(world);
    std::int64_t before = -1;
    for (std::int64_t number = counter.next(); number < all; number = counter.next()) {
      CHECK(number > before);
      before = number;
      ++drawn[static_cast<std::size_t>(number)];
    }
  }
  world.sum(std::span(drawn));
  for (const std::int64_t count : drawn) CHECK(count == 1);
}
