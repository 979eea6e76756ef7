// Stopped and continued on several ranks, where one of them got the signal: the same bits as without.
#include <doctest/doctest.h>

#include "tests/mpi/shared_training.hpp"
#include "tests/support/starts.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// A run in one start, and one that is stopped after every step.
struct Runs : SharedTraining {
  explicit Runs(std::vector<LayerSpec> layers) : SharedTraining(std::move(layers)) {
    config.method.name = MethodName::mrmf;
    config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
    config.method.axes = 1;
    config.training.epochs = 1;
  }

  void check_same() {
    config.run.folder = folder.file("straight");
    const FinalState straight = Starts(config, *backend, world).straight();
    config.run.folder = folder.file("interrupted");
    Starts many(config, *backend, world);
    many.signalled_rank = world.size() - 1;
    CHECK(many.interrupted() == straight);
    CHECK(many.count > 6);
  }
};

}  // namespace

TEST_CASE("checkpoint: stopped after every step, ranks together end with the same bits, with either batch norm") {
  for (const bool global : {true, false}) {
    CAPTURE(global);
    Runs runs(small_layers());
    runs.config.training.global_batch_norm = global;
    runs.check_same();
  }
}

TEST_CASE("checkpoint: also where each rank has the moments of its own pieces between checkpoints") {
  Runs runs(long_layers());
  runs.config.training.optimizer.name = OptimizerKind::adam;
  runs.check_same();
}
