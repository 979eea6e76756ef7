#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "io/rows/sample_store.hpp"
#include "tests/mpi/shared_folder.hpp"

using namespace mrmf;

namespace {

/// How often each sample of the data set was visited, over all ranks.
std::vector<std::int64_t> visits(Comm& comm, const OrderSettings& settings, std::uint64_t epoch) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(settings.samples), 0);
  for (const std::int64_t id : epoch_order(settings, 11, 2, epoch).ids) ++count[static_cast<std::size_t>(id)];
  comm.sum(std::span(count));
  return count;
}

/// Samples (8, 2) that count on from 16 * id, labels from 1000 * id; in three files of different length.
DatasetSpec write_files(Comm& comm, const test::SharedFolder& folder, Index samples) {
  const DatasetSpec spec{
      {folder.file("a.h5"), folder.file("b.h5"), folder.file("c.h5")}, "x", "y", SampleLayout::as_stored};
  if (comm.root())
    for (int part = 0; part < 3; ++part) {
      const Range rows = piece(samples, part, 3);
      std::vector<float> labels(static_cast<std::size_t>(rows.count));
      for (std::size_t i = 0; i < labels.size(); ++i)
        labels[i] = 1000 * (static_cast<float>(rows.first) + static_cast<float>(i));
      const std::string& path = spec.files[static_cast<std::size_t>(part)];
      test::write_floats(path, "x", {rows.count, 8, 2},
                         test::ramp(rows.count * 16, static_cast<float>(rows.first * 16)));
      test::write_floats(path, "y", {rows.count, 1}, labels);
    }
  comm.barrier();
  return spec;
}

}  // namespace

TEST_CASE("shards: every sample exactly once per epoch, weights and steps the same on all ranks") {
  Comm world = Comm::world();
  for (const Index samples : {7, 23, 100, 1001})
    for (const int shards_per_rank : {1, 2})
      for (const std::uint64_t epoch : {0, 1, 5}) {
        OrderSettings settings{samples, world.size(), world.rank(), world.size() * shards_per_rank, 1, true};
        if (samples < settings.shards) continue;
        settings.batch = std::min<Index>(largest_batch(settings), 6);
        check(settings);
        CHECK((visits(world, settings, epoch) == std::vector<std::int64_t>(static_cast<std::size_t>(samples), 1)));
        const EpochOrder order = epoch_order(settings, 11, 2, epoch);
        std::vector<std::int64_t> rows;
        for (const Range& step : order.steps) rows.push_back(step.count);
        CHECK(world.all_equal(rows.size()));
        world.sum(std::span(rows));
        CHECK(rows == order.global_rows);
      }
}

TEST_CASE("shards: gathered mini-batches are those of one rank with the same number of shards") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  const Index samples = 103;
  const DatasetSpec spec = write_files(world, folder, samples);
  const DatasetShape shape = inspect_dataset(spec, world);
  CHECK(shape == DatasetShape{samples, {0, {1, 1, 8}, 2, 1}, {.channels = 1}, {35, 34, 34}});

  const int shards = 60;  // a multiple of 1 to 5 ranks
  const OrderSettings mine{samples, world.size(), world.rank(), shards, shards / world.size(), true};
  const OrderSettings alone{samples, 1, 0, shards, shards, true};
  const EpochOrder order = epoch_order(mine, 3, 1, 4), reference = epoch_order(alone, 3, 1, 4);
  SampleStore store(spec, shape, visited_rows(mine), world);
  const Extent half{1, 1, 2};
  store.make_ready(half);
  REQUIRE(order.steps.size() == reference.steps.size());
  CHECK(order.global_rows == reference.global_rows);
  const auto seat = static_cast<std::size_t>(world.rank());
  for (std::size_t step = 0; step < order.steps.size(); ++step) {
    // Where this rank's rows begin in the team's mini-batch.
    std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()), 0);
    counts[seat] = order.steps[step].count;
    world.sum(std::span(counts));
    Index row = reference.steps[step].first;
    for (std::size_t r = 0; r < seat; ++r) row += counts[r];

    const auto count = order.steps[step].count;
    const Shape batch = store.sample(half).with_rows(count);
    std::vector<float> x(static_cast<std::size_t>(batch.count()), -1), y(static_cast<std::size_t>(count), -1);
    const std::span ids(order.ids.data() + order.steps[step].first, static_cast<std::size_t>(count));
    store.gather(half, ids, {batch, x}, {Shape{count, {1, 1, 1}, 1, 0}, y});
    for (Index i = 0; i < count; ++i) {
      const auto id = static_cast<float>(reference.ids[static_cast<std::size_t>(row + i)]);
      CHECK(y[static_cast<std::size_t>(i)] == 1000 * id);
      CHECK(x[static_cast<std::size_t>(i * 8)] == 16 * id + 1);       // mean of 0 and 2
      CHECK(x[static_cast<std::size_t>(i * 8 + 7)] == 16 * id + 14);  // mean of 13 and 15
    }
  }
}

TEST_CASE("store: a NaN that one rank finds, or a file that is missing, is every rank's error") {
  Comm world = Comm::world();
  const test::SharedFolder folder(world);
  DatasetSpec spec = write_files(world, folder, 100);
  const DatasetShape shape = inspect_dataset(spec, world);
  if (world.root()) {
    std::filesystem::remove(spec.files[2]);
    std::vector<float> x = test::ramp(33 * 16);
    x[32 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
    test::write_floats(spec.files[2], "x", {33, 8, 2}, x);
    test::write_floats(spec.files[2], "y", {33, 1}, test::ramp(33));
  }
  world.barrier();
  const Range owned = piece(100, world.rank(), world.size());  // the last rank meets the NaN
  const auto refusal = [&] { return test::message<DataError>([&] { SampleStore(spec, shape, owned, world); }); };
  const std::string who = world.size() == 1 ? "" : "rank " + std::to_string(world.size() - 1) + ": ";
  CHECK(refusal() == who + spec.files[2] +
                         ": data set 'x', row 32 holds NaN; remove or repair that sample, or leave all such out with "
                         "data.not_finite = \"skip\" (evaluate and predict: --not-finite skip); where NaN is a missing "
                         "number of samples, \"fill\" keeps the row");
  spec.files[0] = folder.file("gone.h5");
  CHECK(refusal().find("gone.h5: no such file") != std::string::npos);
  CHECK(test::message<DataError>([&] { inspect_dataset(spec, world); }).find("gone.h5: no such file") !=
        std::string::npos);
  CHECK(world.sum(1.0) == world.size());
}
