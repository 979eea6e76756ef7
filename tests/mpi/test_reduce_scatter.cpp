// Sums of which each of few ranks adds a piece: in messages of any length, and in the memory of the other ranks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "layers/layer.hpp"
#include "mpi/reduce_scatter.hpp"

using namespace mrmf;

namespace {

/// Gradients and parameters as ranks share them.
struct Blocks {
  std::unique_ptr<Backend> backend = make_reference_backend();
  Arena gradients, params;

  explicit Blocks(Index count) : gradients(backend->allocate_shared(count)), params(backend->allocate_shared(count)) {}
  std::array<SharedBlock, 2> shared() {
    return {{{gradients.span(), gradients.file()}, {params.span(), params.file()}}};
  }
};

/// Sums of numbers that depend on index and rank, added to `results`, each float once; and what is wrong with them.
struct Updates {
  Comm& world;
  std::span<float> values, results;
  std::size_t updated = 0;

  void fill() {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i % 1000) * static_cast<std::size_t>(world.rank() + 1));
    std::ranges::fill(results, 5.0F);
    updated = 0;
  }
  ReduceScatterUpdate update() {
    return {results, [this](std::size_t first, std::size_t count) {
              updated += count;
              for (std::size_t i = first; i < first + count; ++i) results[i] += values[i];
            }};
  }
  std::size_t wrong() const {
    const auto ranks = static_cast<std::size_t>(world.size() * (world.size() + 1) / 2);
    std::size_t count = 0;
    for (std::size_t i = 0; i < results.size(); ++i)
      count += results[i] != static_cast<float>(5 + (i % 1000) * ranks) ? 1U : 0U;
    return count;
  }
  std::size_t updated_by_all() const {
    return static_cast<std::size_t>(std::lround(world.sum(static_cast<double>(updated))));
  }
};

}  // namespace

TEST_CASE("sum by reduce-scatter: each float is updated by one rank's number, or of short sums by every rank's") {
  Comm world = Comm::world();
  if (!world.sums_by_reduce_scatter()) return;
  constexpr Index whole = 100'100;
  Blocks blocks(whole);
  const auto peers = PeerMemory::map(world, blocks.shared());
  REQUIRE(peers.has_value());
  for (const PeerMemory* with : std::array<const PeerMemory*, 2>{nullptr, &*peers})
    for (const Index length : {Index{7}, Index{1} << 14, Index{100'003}}) {
      // Ranks have it at different offsets, as with weights that a grid cuts.
      const ArenaSpan span{world.rank() * 3, length};
      Updates updates{world, span_at(blocks.gradients.span(), span), span_at(blocks.params.span(), span)};
      updates.fill();
      world.barrier();
      PendingSum sum = world.start_sum(updates.values, updates.update(), with);
      CHECK(world.sum(1.0) == world.size());
      sum.finish();
      sum.finish();  // once more does nothing
      CHECK(updates.wrong() == 0);
      const auto all = static_cast<std::size_t>(length);
      CHECK(updates.updated_by_all() == (length < 1000 ? all * static_cast<std::size_t>(world.size()) : all));
    }
}

TEST_CASE("sum by reduce-scatter: many steps in shared memory, whose ranks are not equally fast") {
  Comm world = Comm::world();
  if (!world.sums_by_reduce_scatter()) return;
  constexpr Index half = 40'000;
  Blocks blocks(2 * half);
  const auto peers = PeerMemory::map(world, blocks.shared());
  REQUIRE(peers.has_value());
  const Span values = blocks.gradients.span(), results = blocks.params.span();
  const auto value_at = [](std::size_t i) { return static_cast<float>(i % 100); };
  std::size_t wrong = 0;
  for (int step = 1; step <= 60; ++step) {
    if (step % world.size() == world.rank()) ::usleep(2000);
    std::vector<PendingSum> sums;
    for (const Index first : {half, Index{0}}) {
      const ArenaSpan span{first, half};
      const Span own = span_at(values, span), updated = span_at(results, span);
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<float>(step + world.rank()) + value_at(i);
      sums.push_back(world.start_sum(own,
                                     {updated,
                                      [own, updated](std::size_t at, std::size_t count) {
                                        for (std::size_t i = at; i < at + count; ++i) updated[i] += own[i];
                                      }},
                                     &*peers));
    }
    for (PendingSum& sum : sums) sum.finish();
    const int size = world.size(), steps = step * (step + 1) / 2;
    const auto wanted = static_cast<float>(size * steps + step * (size * (size - 1) / 2));
    for (std::size_t i = 0; i < results.size(); ++i)
      wrong += results[i] != wanted + static_cast<float>(step * size) * value_at(i % half) ? 1U : 0U;
  }
  CHECK(wrong == 0);
  world.barrier();
}

TEST_CASE("sum by reduce-scatter: messages of any length, and one update") {
  Comm world = Comm::world();
  if (!world.sums_by_reduce_scatter()) return;
  std::vector<float> values(20'011), results(values.size());
  const mpi::ReduceScatterSum::Ranks ranks{*static_cast<const MPI_Comm*>(world.handle()), world.rank(), world.size(),
                                           100};
  Updates updates{world, values, results};
  updates.fill();
  int calls = 0;
  const ReduceScatterUpdate update{results, [&, once = updates.update()](std::size_t first, std::size_t count) {
                                     ++calls;
                                     once.update(first, count);
                                   }};
  mpi::MessageSum(ranks, 500, values, std::make_shared<mpi::SumMemory>(), update).finish(WaitLimit{60});
  CHECK(updates.wrong() == 0);
  CHECK(calls == 1);
}

TEST_CASE("peer memory: what other ranks write is read here") {
  Comm world = Comm::world();
  Blocks blocks(1000);
  const auto peers = PeerMemory::map(world, blocks.shared());
  if (world.size() == 1) {
    CHECK(peers.has_value());
    return;
  }
  REQUIRE(peers.has_value());
  blocks.params.span()[10] = static_cast<float>(100 + world.rank());
  world.barrier();
  const Span written = span_at(blocks.params.span(), {10, 1});
  const auto address = peers->address_of(written);
  REQUIRE(address.has_value());
  CHECK(address->block == 1);
  CHECK(address->first == 10);
  for (int r = 0; r < world.size(); ++r)
    if (r != world.rank()) CHECK(peers->of(r, *address, 1).front() == static_cast<float>(100 + r));
  CHECK_FALSE(peers->address_of(std::vector<float>(3)).has_value());
  CHECK_THROWS_AS((void)peers->of(world.rank() == 0 ? 1 : 0, {1, 990}, 11), Error);
  world.barrier();
}

TEST_CASE("peer memory: none on any rank where one rank's cannot be mapped") {
  Comm world = Comm::world();
  if (world.size() == 1) return;
  Blocks blocks(1000);
  const bool last = world.rank() == world.size() - 1;
  auto shared = blocks.shared();
  SUBCASE("memory without a file") {
    if (last) shared[1].file = -1;
  }
  SUBCASE("a file that is closed") {
    if (last) shared[0].file = 900;
  }
  SUBCASE("a file that is too short") {
    if (last) shared[0].values = {shared[0].values.data(), 1 << 20};
  }
  CHECK_FALSE(PeerMemory::map(world, shared).has_value());
  world.barrier();
}
