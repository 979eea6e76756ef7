// Sums that do not depend on the order of the ranks: the same values on other ranks give the same bits.
#include <doctest/doctest.h>

#include <cmath>

#include "src/method/pipeline.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

constexpr Index kSamples = 60;  // as many for every rank, on one to five

/// Samples and labels in `parts` pieces, the first piece last and so on.
std::vector<float> pieces_reversed(const std::vector<float>& values, int parts) {
  std::vector<float> result;
  const std::ptrdiff_t piece_size = std::ssize(values) / parts;
  for (int part = parts - 1; part >= 0; --part)
    result.insert(result.end(), values.begin() + part * piece_size, values.begin() + (part + 1) * piece_size);
  return result;
}

struct TrainedOutcome {
  std::vector<float> params, state;
  double validation_loss = 0;
};

/// Trains on data whose n-th part goes to rank n, or to the n-th last.
TrainedOutcome train(Comm& world, bool reversed, bool global_batch_norm) {
  TemporaryFolder folder;
  std::string file = folder.file("data.h5");
  world.broadcast(file, 0);
  if (world.root()) {
    const int parts = reversed ? world.size() : 1;
    write_floats(file, "x", {kSamples, 40, 2}, pieces_reversed(random_values(kSamples * 40 * 2, 1), parts));
    write_floats(file, "y", {kSamples, 3}, pieces_reversed(random_values(kSamples * 3, 2), parts));
  }
  world.barrier();
  Config config;
  config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
  config.data.shuffle = false;  // an order within a shard depends on the shard's number
  config.model.layers = small_layers();
  config.training.batch = 4;
  config.training.epochs = 3;
  config.training.optimizer.learning_rate = 0.01;
  config.training.global_batch_norm = global_batch_norm;
  const auto backend = make_cpu_backend(1);
  Data data(config, world);
  RunLog silent;
  Outcome outcome = run_pipeline(make_plan(config), config, {*backend, world, data, silent});
  world.barrier();
  Model& model = outcome.model_state.model;
  return {copy(model.params()), copy(model.state()), outcome.phases.back().last.validation_loss};
}

}  // namespace

TEST_CASE("any order: the sum is the same from the last rank to the first, and exact where doubles are") {
  Comm world = Comm::world();
  Comm backwards = world.split(0, -world.rank());
  REQUIRE(backwards.rank() == world.size() - 1 - world.rank());
  world.sum_reproducibly(true);
  Comm inherited = world.split(0, (world.rank() + 1) % world.size());
  backwards.sum_reproducibly(true);
  const std::vector<float> values = random_values(3'000'003, static_cast<std::uint64_t>(world.rank()));
  std::vector<float> a = values, b = values, c = values, d = values;
  world.sum(std::span(a));
  backwards.sum(std::span(b));
  inherited.start_sum(std::span(c)).finish();
  world.duplicate().sum(std::span(d));
  CHECK(a == b);
  CHECK(a == c);
  CHECK(a == d);
  // A double sum that begins with 2^55 loses the ones that follow.
  const double large = std::ldexp(1.0, 55), own = world.root() ? large : world.rank() == 1 ? -large : 1.0;
  if (world.size() > 1) CHECK(world.sum(own) == world.size() - 2);
  CHECK(backwards.sum(own) == world.sum(own));
}

TEST_CASE("any order: training keeps every bit when ranks exchange their samples") {
  for (const bool global_batch_norm : {true, false}) {
    CAPTURE(global_batch_norm);
    Comm world = Comm::world();
    world.sum_reproducibly(true);
    const TrainedOutcome one = train(world, false, global_batch_norm), other = train(world, true, global_batch_norm);
    CHECK(one.params == other.params);
    CHECK(one.state == other.state);
    CHECK(one.validation_loss == other.validation_loss);
  }
}
