// Stopped and continued on several ranks, where one of them got the signal: the same bits as without.
#include <doctest/doctest.h>

#include "tests/support/starts.hpp"
#include "tests/unit/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

TEST_CASE("checkpoint: stopped after every step, ranks together end with the same bits, with either batch norm") {
  for (const bool global : {true, false}) {
    CAPTURE(global);
    TemporaryFolder mine;
    Comm world = Comm::world();
    const auto backend = make_onednn_backend(1);
    std::string folder = mine.path();
    world.broadcast(folder, 0);
    const std::string file = folder + "/data.h5";
    if (world.root()) {
      write_floats(file, "x", {41, 40, 2}, random_values(41 * 40 * 2, 1));
      write_floats(file, "y", {41, 3}, random_values(41 * 3, 2));
    }
    world.barrier();
    Config config;
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::transpose};
    config.model.layers = small_layers();
    config.method.name = MethodName::mrmf;
    config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
    config.method.axes = 1;
    config.training.batch = 4;
    config.training.epochs = 1;
    config.training.global_batch_norm = global;
    config.run.folder = folder + "/straight";
    const Left straight = Starts(config, *backend, world).straight();
    config.run.folder = folder + "/interrupted";
    Starts many(config, *backend, world);
    many.signalled_rank = world.size() - 1;
    CHECK(many.interrupted() == straight);
    CHECK(many.count > 6);
    world.barrier();  // the root's folder goes
  }
}
