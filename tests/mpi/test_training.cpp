// Training on several ranks: what they must share is checked, and what they compute is the same.
#include <doctest/doctest.h>

#include <cstring>

#include "src/pipeline.hpp"
#include "src/trainer.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// One data set that all ranks see, and what training on it takes.
struct Team {
  TemporaryFolder folder;
  Comm world = Comm::world();
  std::unique_ptr<Backend> backend = make_onednn_backend(1);
  Config config;

  Team() {
    std::string file = folder.file("data.h5");
    world.broadcast(file, 0);
    if (world.root()) {
      write_floats(file, "x", {41, 40, 2}, random_values(41 * 40 * 2, 1));
      write_floats(file, "y", {41, 3}, random_values(41 * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::transpose};
    config.model.layers = small_layers();
    config.training.batch = 4;
    config.training.epochs = 1;
  }
};

}  // namespace

TEST_CASE("training: ranks whose parameters differ are found out at the start of the stage, on every rank") {
  Team team;
  Data data(team.config, team.world);
  RunReport silent;
  const Workplace at{*team.backend, team.world, data, silent};
  const Plan plan = make_plan(team.config);
  const auto seed = static_cast<std::uint64_t>(team.world.rank());
  Learner learner = make_learner(plan, team.config, at, {1, 1, 1}, seed);
  Trainer trainer(at, team.config.training);
  if (team.world.size() == 1) {
    CHECK_NOTHROW(trainer.train(learner, plan.last));
  } else {
    CHECK_THROWS_WITH_AS(trainer.train(learner, plan.last), doctest::Contains("the ranks disagree on the parameters"),
                         FaultError);
  }
  team.world.barrier();
}

TEST_CASE("training: after an epoch all ranks hold the same parameters and statistics, with either batch norm") {
  for (const bool global : {true, false}) {
    CAPTURE(global);
    Team team;
    team.config.training.global_batch_norm = global;
    Data data(team.config, team.world);
    RunReport silent;
    Outcome outcome = run_pipeline(make_plan(team.config), team.config, {*team.backend, team.world, data, silent});
    const auto same = [&](ConstSpan span) {
      std::uint64_t hash = 0;
      for (const float value : span) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        hash = mix(hash, bits);
      }
      return team.world.agree(hash);
    };
    CHECK(same(outcome.learner.model.params()));
    CHECK(same(outcome.learner.model.state()));
    team.world.barrier();
  }
}
