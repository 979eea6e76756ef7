#include <doctest/doctest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "mpi/wait.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;

namespace {

/// 0 + 1 + ... + (n - 1)
double triangle(int n) { return n * (n - 1) / 2.0; }

}  // namespace

TEST_CASE("comm: sums of spans are exact") {
  Comm world = Comm::world();
  const int n = world.size(), rank = world.rank();
  // Element i of rank r is r + i / 4: small multiples of a quarter, whose sums are exact in any order.
  for (const std::size_t count : {0, 1, 7, 1000, 300'001}) {
    std::vector<float> floats(count);
    std::vector<double> doubles(count);
    std::vector<std::int64_t> integers(count);
    for (std::size_t i = 0; i < count; ++i) {
      floats[i] = static_cast<float>(rank) + static_cast<float>(i % 4096) / 4;
      doubles[i] = rank + static_cast<double>(i) / 4;
      integers[i] = (std::int64_t{1} << 40) + rank * static_cast<std::int64_t>(i);
    }
    world.sum(std::span(floats));
    world.sum(std::span(doubles));
    world.sum(std::span(integers));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += floats[i] != static_cast<float>(triangle(n) + n * static_cast<double>(i % 4096) / 4);
      wrong += doubles[i] != triangle(n) + n * static_cast<double>(i) / 4;
      wrong += integers[i] !=
               n * (std::int64_t{1} << 40) + static_cast<std::int64_t>(triangle(n)) * static_cast<std::int64_t>(i);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("comm: sums that are not exact have the same bits on every rank") {
  Comm world = Comm::world();
  std::vector<float> values(10'007);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / (1.0F + static_cast<float>(i)) + 0.1F * static_cast<float>(world.rank());
  world.sum(std::span(values));
  std::uint64_t hash = 0;
  for (const float value : values) hash = hash * 1'000'003 + std::bit_cast<std::uint32_t>(value);
  CHECK(world.all_equal(hash));
}

TEST_CASE("comm: single values") {
  Comm world = Comm::world();
  const int n = world.size(), rank = world.rank();
  CHECK(world.sum(rank + 0.5) == triangle(n) + n * 0.5);
  CHECK(world.min(10.0 - rank) == 10.0 - (n - 1));
  CHECK(world.max(10.0 - rank) == 10.0);
  CHECK(world.any(false) == false);
  CHECK(world.any(true) == true);
  for (int chosen = 0; chosen < n; ++chosen) CHECK(world.any(rank == chosen));
  std::vector<double> squares(static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r) squares[static_cast<std::size_t>(r)] = r * r;
  CHECK(world.all_gather(rank * rank) == squares);
}

TEST_CASE("comm: broadcasts from every root") {
  Comm world = Comm::world();
  for (int root = 0; root < world.size(); ++root) {
    const bool mine = world.rank() == root;
    std::vector<float> values(513, mine ? 2.5F + static_cast<float>(root) : -1.0F);
    world.broadcast(std::span(values), root);
    CHECK(std::count(values.begin(), values.end(), 2.5F + static_cast<float>(root)) == 513);
    std::vector<std::int64_t> integers(3, mine ? (std::int64_t{1} << 50) + root : 0);
    world.broadcast(std::span(integers), root);
    CHECK(integers == std::vector<std::int64_t>(3, (std::int64_t{1} << 50) + root));
    for (const std::string& sent : {std::string(), std::string("root's text"), std::string(70'000, 'x')}) {
      std::string text = mine ? sent : "something else, and longer than nothing";
      world.broadcast(text, root);
      CHECK(text == sent);
    }
  }
}

TEST_CASE("comm: agree says the same everywhere, whoever differs") {
  Comm world = Comm::world();
  CHECK(world.all_equal(0));
  CHECK(world.all_equal(~std::uint64_t{0}));
  CHECK(world.all_equal(0x123456789abcdef0));
  for (int odd = 0; odd < world.size(); ++odd) {
    const bool alone = world.size() == 1;
    CHECK(world.all_equal(world.rank() == odd ? 8 : 7) == alone);
    CHECK(world.all_equal(world.rank() == odd ? std::uint64_t{1} << 63 : 0) == alone);
    CHECK(world.all_equal(world.rank() == odd ? ~std::uint64_t{0} : 0) == alone);
  }
}

TEST_CASE("comm: uneven teams live side by side, and with their parent") {
  Comm world = Comm::world();
  const int n = world.size(), rank = world.rank();
  // The first ceil(2n / 3) ranks are one team, the rest the other.
  const int first = (2 * n + 2) / 3;
  const bool in_first = rank < first;
  Comm team = world.split(in_first ? 0 : 1);
  CHECK(team.size() == (in_first ? first : n - first));
  CHECK(team.rank() == (in_first ? rank : rank - first));
  CHECK(team.root() == (rank == 0 || rank == first));
  CHECK(team.sum(static_cast<double>(rank)) == (in_first ? triangle(first) : triangle(n) - triangle(first)));
  CHECK(world.sum(1.0) == n);
  // The teams do different numbers of collective steps, as a dense and a coarse team do.
  for (int step = 0; step < (in_first ? 3 : 8); ++step) CHECK(team.sum(1.0) == team.size());
  CHECK(team.duplicate().sum(1.0) == team.size());
  CHECK(Comm::self().size() == 1);
  CHECK(Comm::self().sum(static_cast<double>(rank)) == rank);
}

TEST_CASE("comm: a moved communicator works, and its old self can be dropped or assigned again") {
  Comm world = Comm::world();
  Comm a = world.duplicate();
  Comm b = std::move(a);
  CHECK(b.sum(1.0) == world.size());
  a = world.split(0);  // NOLINT(bugprone-use-after-move): assigning is what is tested
  CHECK(a.size() == world.size());
  b = std::move(a);
  CHECK(b.sum(2.0) == 2.0 * world.size());
  std::vector<Comm> many;
  for (int i = 0; i < 5; ++i) many.push_back(world.duplicate());
  many.erase(many.begin());
  CHECK(many.back().sum(1.0) == world.size());
}

TEST_CASE("comm: communicators are given back") {
  // A freed communicator's handle is used again; a leak in every evaluation would end a long run.
  Comm world = Comm::world();
  std::set<MPI_Fint> handles;
  for (int i = 0; i < 50; ++i) handles.insert(MPI_Comm_c2f(*static_cast<const MPI_Comm*>(world.duplicate().handle())));
  CHECK(handles.size() < 10);
}

TEST_CASE("comm: MPI's errors come with its text, the function and the rank") {
  Comm world = Comm::world();
  float value = 1;
  const std::string text = test::message<FaultError>([&] { world.broadcast(std::span(&value, 1), world.size() + 3); });
  CHECK(text.find("MPI_Ibcast failed on rank " + std::to_string(world.rank())) == 0);
  CHECK(text.find("MPI_ERR_ROOT") != std::string::npos);
  CHECK(world.sum(1.0) == world.size());  // and the communicator still works
}

TEST_CASE("comm: a rank that does not come ends the others' wait") {
  Comm world = Comm::world();
  if (world.size() == 1) return;
  Comm late = world.duplicate();
  late.limit(100);
  CHECK(late.duplicate().limit() == 100);
  CHECK(world.limit() == 0);
  late.limit(0.2);
  static std::array<double, 1> value;  // outlives the sum that is given up: MPI may still write to it
  value[0] = 1;
  const bool slow = world.rank() == world.size() - 1;
  if (!slow) {
    const std::string text = test::message<FaultError>([&] { late.sum(std::span(value)); });
    CHECK(text.find("rank " + std::to_string(world.rank()) + ": ") == 0);
    CHECK(text.find("has not ended within 0.2 s; another rank hangs or has died") != std::string::npos);
  }
  world.barrier();  // all others have given up
  if (slow) {
    late.limit(0);
    late.sum(std::span(value));
    CHECK(value[0] == world.size());
  }
  world.barrier();
}

TEST_CASE("comm: sums continue beside other calls, and end in any order") {
  Comm world = Comm::world();
  std::vector<float> a(300'000, 1.0F), b(7, 2.0F), none;
  PendingSum first = world.start_sum(std::span(a));
  PendingSum second = world.start_sum(std::span(b));
  PendingSum empty = world.start_sum(std::span(none));
  CHECK(empty.test());
  CHECK(world.sum(1.0) == world.size());
  second.finish();
  while (!first.test()) continue;
  first.finish();  // once more does nothing
  CHECK(std::count(a.begin(), a.end(), static_cast<float>(world.size())) == std::ssize(a));
  CHECK(std::count(b.begin(), b.end(), 2.0F * static_cast<float>(world.size())) == 7);
}

TEST_CASE("comm: long sums, several at a time, beside messages of the same ranks") {
  Comm world = Comm::world();
  const int size = world.size(), rank = world.rank();
  constexpr std::size_t lengths[] = {1 << 14, (1 << 14) + 3, 100003, 7};
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::vector<float>> values;
    std::vector<PendingSum> sums;
    for (const std::size_t length : lengths) {
      std::vector<float>& mine = values.emplace_back(length);
      for (std::size_t i = 0; i < length; ++i)
        mine[i] = static_cast<float>((i % 1000) * static_cast<std::size_t>(rank + 1));
    }
    for (std::vector<float>& mine : values) sums.push_back(world.start_sum(mine));
    CHECK(world.sum(1.0) == size);
    if (turn == 1)
      while (!sums[2].test()) {
      }
    for (PendingSum& sum : sums) sum.finish();
    const auto ranks = static_cast<std::size_t>(size * (size + 1) / 2);
    for (const std::vector<float>& total : values) {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < total.size(); ++i)
        wrong += total[i] != static_cast<float>((i % 1000) * ranks) ? 1U : 0U;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("comm: long sums that are not exact have the same bits on every rank") {
  Comm world = Comm::world();
  std::vector<float> values(50000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(i + 3 + static_cast<std::size_t>(world.rank()) * 7);
  world.start_sum(values).finish();
  std::uint64_t hash = 0;
  for (const float value : values) hash = hash * 31 + std::bit_cast<std::uint32_t>(value);
  CHECK(world.all_equal(hash));
}

TEST_CASE("comm: long spans go in pieces, each element once") {
  std::vector<int> values(23);
  for (const std::size_t limit : {1, 5, 22, 23, 24}) {
    std::fill(values.begin(), values.end(), 0);
    std::size_t calls = 0;
    for_each_chunk(std::span(values), limit, [&](std::span<int> part) {
      CHECK(part.size() <= limit);
      for (int& value : part) ++value;
      ++calls;
    });
    CHECK(std::count(values.begin(), values.end(), 1) == 23);
    CHECK(calls == (23 + limit - 1) / limit);
  }
}

TEST_CASE("comm: a call that ends as its deadline begins is not overdue") {
  for (int i = 0; i < 20'000; ++i) {
    const mpi::Deadline deadline({.seconds = 300}, "a call");
    for (const Timer call; call.seconds() < i % 100 * 2e-7;) {
    }
  }
}

TEST_CASE("collective_try: one rank's error is every rank's, with its class") {
  Comm world = Comm::world();
  collective_try(world, [] {});
  for (int bad = 0; bad < world.size(); ++bad) {
    const std::string prefix = bad == 0 ? "" : "rank " + std::to_string(bad) + ": ";  // the root's is everybody's
    const auto fails = [&](auto error) {
      collective_try(world, [&] {
        if (world.rank() == bad) throw error;
      });
    };
    CHECK(test::message<DataError>([&] { fails(DataError("a.h5: broken")); }) == prefix + "a.h5: broken");
    CHECK(test::message<ConfigError>([&] { fails(ConfigError("batch = 0")); }) == prefix + "batch = 0");
    CHECK(test::message<FaultError>([&] { fails(std::runtime_error("no")); }) == prefix + "no");
    CHECK(test::message<FaultError>([&] { fails(std::bad_alloc()); }).find(prefix + "out of memory") == 0);
  }
  // All ranks fail, each in its own words: the first one's are used, and no rank is singled out.
  CHECK(test::message<DataError>([&] {
          collective_try(world, [&] { throw DataError("from " + std::to_string(world.rank())); });
        }) == "from 0");
}

TEST_CASE("comm: ranks do not wait for ever for one that does not split or duplicate") {
  Comm world = Comm::world();
  if (world.size() == 1) return;
  for (const bool split : {true, false}) {
    Comm late = world.duplicate();
    late.limit(0.2);
    if (world.rank() != 0)
      CHECK_THROWS_WITH_AS(split ? late.split(world.rank()) : late.duplicate(),
                           doctest::Contains("has not ended within 0.2 s"), FaultError);
    world.barrier();  // all others have given up
    if (world.rank() == 0) {
      late.limit(0);
      late.barrier();  // what they gave up
    }
    world.barrier();
  }
}
