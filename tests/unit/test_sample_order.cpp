#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "io/rows/sample_order.hpp"
#include "kernels/random.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;

namespace {

std::string order_refusal(const OrderSettings& settings) {
  return test::message<ConfigError>([&] { check(settings); });
}

/// The samples of the whole team, step by step, ranks one after the other.
std::vector<std::vector<std::int64_t>> global_steps(OrderSettings settings, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::vector<std::int64_t>> result(static_cast<std::size_t>(steps_per_epoch(settings)));
  for (settings.rank = 0; settings.rank < settings.ranks; ++settings.rank) {
    const EpochOrder order = epoch_order(settings, seed, 3, epoch);
    REQUIRE(order.steps.size() == result.size());
    for (std::size_t step = 0; step < result.size(); ++step) {
      const auto begin = order.ids.begin() + order.steps[step].first;
      result[step].insert(result[step].end(), begin, begin + order.steps[step].count);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("piece: contiguous, complete, sizes differ by at most one") {
  CHECK(piece(10, 0, 4) == Range{0, 3});
  CHECK(piece(10, 1, 4) == Range{3, 3});
  CHECK(piece(10, 2, 4) == Range{6, 2});
  CHECK(piece(10, 3, 4) == Range{8, 2});
  CHECK(piece(2, 2, 3) == Range{2, 0});
  CHECK(piece(21'001'400'000, 6, 7) == Range{18'001'200'000, 3'000'200'000});  // beyond 32 bits
  for (Index count : {0, 1, 7, 23, 100, 1001})
    for (Index parts : {1, 2, 3, 5, 8, 64}) {
      Index next = 0;
      for (Index part = 0; part < parts; ++part) {
        const Range range = piece(count, part, parts);
        CHECK(range.first == next);
        CHECK(range.count >= count / parts);
        CHECK(range.count <= (count + parts - 1) / parts);
        next += range.count;
      }
      CHECK(next == count);
    }
}

TEST_CASE("an epoch visits every sample once, in steps that differ by at most one row per shard") {
  for (Index samples : {7, 23, 100, 1001})
    for (int ranks : {1, 2, 3, 4, 5})
      for (int per_rank : {1, 3})
        for (Index rows : {1, 2, 7}) {
          OrderSettings settings{samples, ranks, 0, ranks * per_rank, rows * per_rank, true};
          if (settings.batch > largest_batch(settings)) continue;
          CAPTURE(samples);
          CAPTURE(ranks);
          CAPTURE(settings.shards);
          CAPTURE(settings.batch);
          check(settings);
          const auto steps = global_steps(settings, 1, 0);
          std::vector<std::int64_t> all;
          std::size_t smallest = steps[0].size(), largest = steps[0].size();
          for (const auto& step : steps) {
            smallest = std::min(smallest, step.size());
            largest = std::max(largest, step.size());
            all.insert(all.end(), step.begin(), step.end());
          }
          CHECK(smallest >= 1);
          CHECK(largest - smallest <= static_cast<std::size_t>(settings.shards));
          CHECK(largest <= static_cast<std::size_t>(settings.batch * ranks));
          std::sort(all.begin(), all.end());
          std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
          std::iota(expected.begin(), expected.end(), 0);
          CHECK(all == expected);
        }
}

TEST_CASE("steps and weights: one rank's rows per step add up to the team's, and stay inside its batch and its rows") {
  OrderSettings settings{103, 3, 0, 6, 8, true};
  std::vector<Index> sums(static_cast<std::size_t>(steps_per_epoch(settings)), 0);
  std::vector<Index> weights;
  for (settings.rank = 0; settings.rank < 3; ++settings.rank) {
    const EpochOrder order = epoch_order(settings, 9, 1, 4);
    const Range owned = visited_rows(settings);
    Index next = 0;
    for (std::size_t step = 0; step < order.steps.size(); ++step) {
      CHECK(order.steps[step].first == next);
      CHECK(order.steps[step].count <= settings.batch);
      next += order.steps[step].count;
      sums[step] += order.steps[step].count;
    }
    CHECK(next == owned.count);
    CHECK(static_cast<Index>(order.ids.size()) == owned.count);
    for (const std::int64_t id : order.ids) CHECK((id >= owned.first && id < owned.first + owned.count));
    weights = order.global_rows;
  }
  CHECK(weights == sums);
}

TEST_CASE("with a fixed number of shards the mini-batches are the same on any number of ranks") {
  for (Index samples : {23, 100, 1001}) {
    const auto one = global_steps({samples, 1, 0, 4, 16, true}, 7, 2);
    CHECK(global_steps({samples, 2, 0, 4, 8, true}, 7, 2) == one);
    CHECK(global_steps({samples, 4, 0, 4, 4, true}, 7, 2) == one);
  }
}

TEST_CASE("the order is a pure function of seed, stage and epoch, and each of them changes it") {
  const OrderSettings settings{500, 2, 1, 2, 50, true};
  const auto ids = [&](std::uint64_t seed, std::uint64_t stage, std::uint64_t epoch) {
    return epoch_order(settings, seed, stage, epoch).ids;
  };
  const auto reference = ids(1, 2, 3);
  CHECK(ids(1, 2, 3) == reference);
  CHECK(ids(2, 2, 3) != reference);
  CHECK(ids(1, 3, 3) != reference);
  CHECK(ids(1, 2, 4) != reference);
  CHECK(ids(1, 3, 2) != reference);  // stage and epoch do not stand for each other
}

TEST_CASE("shards are shuffled independently, and well enough that no position keeps its sample") {
  const OrderSettings settings{200, 1, 0, 2, 200, true};
  const auto ids = epoch_order(settings, 5, 0, 0).ids;  // one step: shard 0, then shard 1
  int equal = 0;
  for (std::size_t i = 0; i < 100; ++i) equal += ids[i] + 100 == ids[100 + i];
  CHECK(equal < 10);  // expected 1 of 100 for independent shuffles, 100 for a shared one

  // First position over 1000 epochs: each of 10 samples about 100 times; 5 standard deviations are 47.
  std::vector<int> first(10, 0);
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch)
    ++first[static_cast<std::size_t>(epoch_order({10, 1, 0, 1, 10, true}, 1, 1, epoch).ids[0])];
  for (const int count : first) CHECK(std::abs(count - 100) < 47);
}

TEST_CASE("shuffled over all samples: as for shards, but any sample may come to any rank") {
  for (const Index samples : {23, 100, 1001}) {
    CAPTURE(samples);
    OrderSettings settings{samples, 1, 0, 4, 16, true, true};
    const auto one = global_steps(settings, 7, 2), shards = global_steps({samples, 1, 0, 4, 16, true}, 7, 2);
    std::vector<std::int64_t> all;
    REQUIRE(one.size() == shards.size());
    for (std::size_t step = 0; step < one.size(); ++step) {
      CHECK(one[step].size() == shards[step].size());
      all.insert(all.end(), one[step].begin(), one[step].end());
    }
    std::sort(all.begin(), all.end());
    std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(all == expected);
    CHECK(global_steps({samples, 2, 0, 4, 8, true, true}, 7, 2) == one);
    CHECK(global_steps({samples, 4, 0, 4, 4, true, true}, 7, 2) == one);
    CHECK(global_steps(settings, 7, 3) != one);
    CHECK(global_steps(settings, 8, 2) != one);
    CHECK(epoch_order(settings, 7, 4, 2).ids != epoch_order(settings, 7, 3, 2).ids);
    CHECK(visited_rows({samples, 4, 2, 4, 4, true, true}) == Range{0, samples});
  }
  // Over 1000 epochs, each of 10 samples is rank 1's in half of them: 500; 5 standard deviations are 79.
  std::vector<int> seconds(10, 0);
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch)
    for (const std::int64_t id : epoch_order({10, 2, 1, 2, 5, true, true}, 1, 1, epoch).ids)
      ++seconds[static_cast<std::size_t>(id)];
  for (const int count : seconds) CHECK(std::abs(count - 500) < 79);
  // Without shuffling there is nothing that it could be over.
  const OrderSettings in_order{11, 2, 1, 2, 2, false, true};
  CHECK(epoch_order(in_order, 1, 1, 1).ids == std::vector<std::int64_t>{6, 7, 8, 9, 10});
  CHECK(visited_rows(in_order) == Range{6, 5});
}

TEST_CASE("without shuffling the samples come in the order of the file") {
  const OrderSettings settings{11, 2, 1, 2, 2, false};
  const EpochOrder order = epoch_order(settings, 1, 1, 1);
  CHECK(order.ids == std::vector<std::int64_t>{6, 7, 8, 9, 10});
  CHECK(order.steps == std::vector<Range>{{0, 2}, {2, 2}, {4, 1}});
  CHECK(order.global_rows == std::vector<Index>{4, 4, 3});
}

TEST_CASE("a rank may sit out a step, the team never does") {
  const OrderSettings settings{3, 2, 1, 2, 1, false};  // shards of 2 and 1
  const EpochOrder order = epoch_order(settings, 1, 1, 1);
  CHECK(order.steps == std::vector<Range>{{0, 1}, {1, 0}});
  CHECK(order.global_rows == std::vector<Index>{2, 1});
}

TEST_CASE("impossible settings are refused with what to do") {
  CHECK(order_refusal({100, 2, 0, 4, 10, true}).empty());
  CHECK(order_refusal({100, 2, 0, 3, 10, true}) ==
        "data.shards = 3 is not a multiple of the 2 ranks; use a multiple, or 0 for one shard per rank");
  CHECK(order_refusal({100, 1, 0, 4, 10, true}) ==
        "batch = 10 on 1 rank cannot be taken in equal parts from data.shards = 4; use a multiple of 4");
  CHECK(order_refusal({3, 5, 0, 5, 1, true}) ==
        "3 samples cannot be cut into 5 shards; use fewer ranks or shards, or more data");
  CHECK(order_refusal({100, 3, 0, 3, 34, true}) ==
        "batch = 34 is larger than a rank's shard of the data (100 samples on 3 ranks); use a batch of at most 33, or "
        "fewer ranks");
  CHECK(order_refusal({100, 3, 0, 3, 33, true}).empty());
  CHECK(order_refusal({100, 3, 0, 3, 0, true}) == "batch = 0: must be at least 1");
  CHECK(order_refusal({100, 3, 3, 3, 1, true}) == "rank 3 of 3 does not exist");
}

TEST_CASE("the largest batch is accepted, one more unit is not") {
  OrderSettings settings{1001, 2, 0, 8, 1, true};
  settings.batch = largest_batch(settings);
  CHECK(settings.batch == 500);  // 125 rows of each of 4 shards
  CHECK(order_refusal(settings).empty());
  settings.batch += 4;
  CHECK_FALSE(order_refusal(settings).empty());
}

TEST_CASE("order: ranks are idle in a step only with one row per shard and step and shards of two sizes") {
  OrderSettings settings;
  settings.samples = 97;
  settings.ranks = settings.shards = 2;
  settings.batch = 1;
  CHECK(leaves_ranks_idle(settings));
  settings.rank = 1;
  Index least = 97;
  for (const Range& rows : epoch_order(settings, 1, 1, 1).steps) least = std::min(least, rows.count);
  CHECK(least == 0);
  settings.batch = 2;
  CHECK_FALSE(leaves_ranks_idle(settings));
  settings.samples = 96;
  settings.batch = 1;
  CHECK_FALSE(leaves_ranks_idle(settings));
  settings = {.samples = 7, .ranks = 1, .rank = 0, .shards = 3, .batch = 3};  // the one rank has the large shard too
  CHECK_FALSE(leaves_ranks_idle(settings));
}

namespace {

/// The settings with epochs that draw the classes equally often.
OrderSettings balanced(OrderSettings settings, const std::vector<std::int32_t>& classes) {
  settings.balance = std::make_shared<ClassBalance>(balance_classes(classes, settings));
  return settings;
}

/// How often an epoch of the whole team draws each class; every sample lies in its rank's rows.
std::vector<Index> class_draws(OrderSettings settings) {
  std::vector<Index> draws;
  for (settings.rank = 0; settings.rank < settings.ranks; ++settings.rank) {
    const Range rows = visited_rows(settings);
    for (const std::int64_t id : epoch_order(settings, 3, 1, 2).ids) {
      CHECK((id >= rows.first && id < rows.first + rows.count));
      const auto c = static_cast<std::size_t>(settings.balance->classes[static_cast<std::size_t>(id)]);
      if (draws.size() <= c) draws.resize(c + 1);
      ++draws[c];
    }
  }
  return draws;
}

/// 108 samples of class 0 and 12 of class 1: one class after the other, or every tenth of class 1.
std::vector<std::int32_t> rare_classes(bool sorted) {
  std::vector<std::int32_t> classes;
  for (int i = 0; i < 120; ++i) classes.push_back(sorted ? i >= 108 : i % 10 == 9);
  return classes;
}

}  // namespace

TEST_CASE("balanced draws: classes come equally often over all shards together") {
  for (const bool across : {false, true})
    for (const int ranks : {1, 2, 3})
      CHECK(class_draws(balanced({120, ranks, 0, 6, 24 / ranks, true, across}, rare_classes(false))) ==
            std::vector<Index>{60, 60});
  // Shards that lack a class: 0 of the first, 2 of the second.
  const std::vector<std::int32_t> classes = {1, 1, 2, 2, 2, 2, 1, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 1};
  const OrderSettings settings{18, 3, 0, 3, 2, true};
  CHECK(class_draws(balanced(settings, classes)) == std::vector<Index>{6, 6, 6});
  CHECK(unbalanced_text(balance_classes(classes, settings).quotas).empty());
}

TEST_CASE("balanced draws: sorted rows are balanced on one shard and over all of them, and refused on several") {
  const auto classes = rare_classes(true);
  const auto text = [&](int shards, bool across) {
    return unbalanced_text(balance_classes(classes, {120, 1, 0, shards, 24, true, across}).quotas);
  };
  CHECK(text(1, false).empty());
  CHECK(text(6, true).empty());
  CHECK(text(2, false).empty());  // all that the second one draws is of class 1
  CHECK(text(3, false).find("class 1 has samples in 1 of 3 shards") == 0);
  CHECK(text(6, false).find("so an epoch can draw it 20 times instead of 60") != std::string::npos);
  CHECK(class_draws(balanced({120, 2, 0, 6, 12, true, true}, classes)) == std::vector<Index>{60, 60});
}

TEST_CASE("balanced draws: random classes and shards keep a shard's size and come near an equal share") {
  Rng rng(11);
  for (int trial = 0; trial < 100; ++trial) {
    const int shards = 1 + static_cast<int>(rng.below(7)), count = 2 + static_cast<int>(rng.below(5));
    const auto samples = static_cast<Index>(shards * (20 + rng.below(30)));
    std::vector<std::int32_t> classes;
    for (Index i = 0; i < samples; ++i)
      classes.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(count) + 1)) - 1);
    OrderSettings order{samples, 1, 0, shards, 20, true};
    const ClassBalance made = balance_classes(classes, order);
    std::vector<Index> sums(static_cast<std::size_t>(count));
    for (int s = 0; s < shards; ++s) {
      Index all = 0;
      for (std::size_t c = 0; c < made.quotas[static_cast<std::size_t>(s)].size(); ++c) {
        all += made.quotas[static_cast<std::size_t>(s)][c];
        sums[c] += made.quotas[static_cast<std::size_t>(s)][c];
      }
      CHECK(all == piece(samples, s, shards).count);
    }
    if (unbalanced_text(made.quotas).empty())
      for (const Index sum : sums) CHECK(std::abs(sum - samples / count) <= shards + samples / count / 10);
  }
}
