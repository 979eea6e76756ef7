// Shard by shard: what all ranks compute together has the bits of what one rank computes alone.
#include <doctest/doctest.h>

#include "src/training/deterministic_replicas.hpp"
#include "tests/support/starts.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct ShardExperiment {
  TemporaryFolder mine;
  Comm world = Comm::world(), alone = Comm::self();
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::string folder = mine.path();
  const int shards = world.size() == 5 ? 10 : 12;  // a multiple of every number of ranks
  Config config;

  ShardExperiment() {
    world.broadcast(folder, 0);
    const Index samples = 6 * shards - 1;  // the last shard is smaller: without a sample in the last of small batches
    const std::string file = folder + "/data.h5";
    if (world.root()) {
      write_floats(file, "x", {samples, 40, 2}, random_values(samples * 40 * 2, 1));
      write_floats(file, "y", {samples, 3}, random_values(samples * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.data.shards = shards;
    config.model.layers = small_layers();
    LayerSpec dropout = layer(LayerKind::dropout);
    dropout.rate = 0.25F;
    dropout.name = "dropout";
    config.model.layers.insert(config.model.layers.end() - 1, dropout);
    config.method.name = MethodName::mrmf;
    config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
    config.method.axes = 1;
    config.training.epochs = 1;
    config.training.optimizer.learning_rate = 0.01;
  }
  ~ShardExperiment() { world.barrier(); }  // the root's folder goes

  // A run of these ranks that takes so many rows of every shard in a step.
  Starts run(const std::string& name, Comm& ranks, int rows) {
    Config own = config;
    own.run.folder = folder + "/" + name + (ranks.size() < world.size() ? std::to_string(world.rank()) : "");
    own.training.batch = rows * shards / ranks.size();
    Starts starts(own, *backend, ranks);
    starts.shard_replicas = true;
    starts.signalled_rank = ranks.size() - 1;
    return starts;
  }
};

}  // namespace

TEST_CASE("shard replicas: all ranks leave the bits that one leaves alone, with either batch norm") {
  for (const bool global : {true, false}) {
    const int rows = global ? 1 : 4;
    CAPTURE(global);
    ShardExperiment experiment;
    experiment.config.training.global_batch_norm = global;
    const FinalState alone = experiment.run("alone", experiment.alone, rows).straight();
    const FinalState together = experiment.run("together", experiment.world, rows).straight();
    CHECK(together.params == alone.params);
    CHECK(together.state == alone.state);
    if (experiment.world.root()) CHECK(together.losses == alone.losses);
  }
}

TEST_CASE("shard replicas: streamed, and stopped after every step, they leave the same bits") {
  ShardExperiment experiment;
  const FinalState straight = experiment.run("straight", experiment.world, 4).straight();
  experiment.config.data.load = LoadRule::stream;
  Starts many = experiment.run("interrupted", experiment.world, 4);
  CHECK(many.interrupted() == straight);
  CHECK(many.count > 6);
}

TEST_CASE("shard replicas: the threads that compute at a time do not matter") {
  ShardExperiment experiment;
  const FinalState one = experiment.run("one", experiment.world, 4).straight();
  experiment.backend = make_cpu_backend(3);
  const FinalState three = experiment.run("three", experiment.world, 4).straight();
  experiment.backend = make_cpu_backend(1);
  CHECK(one == three);
}

TEST_CASE("shard replicas: they learn what whole batches teach, with global batch norm") {
  // A float32 rounding or two per sum (6e-8), against sums in another order: test_layers_batch_norm.cpp has 1e-5 too.
  ShardExperiment experiment;
  experiment.config.training.optimizer.name = OptimizerKind::sgd;
  experiment.config.training.epochs = 2;
  const FinalState shards = experiment.run("shards", experiment.world, 4).straight();
  Starts usual = experiment.run("usual", experiment.world, 4);
  usual.shard_replicas = false;
  const FinalState batches = usual.straight();
  for (std::size_t i = 0; i < shards.losses.size(); ++i)
    CHECK(shards.losses[i] == doctest::Approx(batches.losses[i]).epsilon(1e-5));
}
