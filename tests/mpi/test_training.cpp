// Training on several ranks: what they must share is checked, and what they compute is the same.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "src/method/pipeline.hpp"
#include "src/system/host_info.hpp"
#include "src/training/training_loop.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// One data set that all ranks see, and what training on it takes.
struct Team {
  TemporaryFolder folder;
  Comm world = Comm::world();
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Config config;

  Team() {
    std::string file = folder.file("data.h5");
    world.broadcast(file, 0);
    if (world.root()) {
      write_floats(file, "x", {41, 40, 2}, random_values(41 * 40 * 2, 1));
      write_floats(file, "y", {41, 3}, random_values(41 * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.model.layers = small_layers();
    config.training.batch = 4;
    config.training.epochs = 1;
  }
};

/// What lets a rank's parameters differ from an epoch on (the first is 0): half the rate there.
Phase otherwise_from(Phase phase, int epoch) {
  phase.optimizer.rule = RateRule::piecewise;
  phase.optimizer.boundaries = {static_cast<double>(epoch)};
  phase.optimizer.factor = 0.5;
  return phase;
}

}  // namespace

TEST_CASE("training: ranks whose parameters differ are found out at the start of the stage, on every rank") {
  Team team;
  Data data(team.config, team.world);
  RunLog silent;
  const RunContext ctx{*team.backend, team.world, data, silent};
  const Plan plan = make_plan(team.config);
  const auto seed = static_cast<std::uint64_t>(team.world.rank());
  ModelState model_state = make_model_state(plan, team.config, ctx, {1, 1, 1}, seed);
  TrainingLoop loop(ctx, team.config.training);
  if (team.world.size() == 1) {
    CHECK_NOTHROW(loop.train(model_state, plan.last));
  } else {
    CHECK_THROWS_WITH_AS(loop.train(model_state, plan.last), doctest::Contains("the ranks disagree on the parameters"),
                         FaultError);
  }
  team.world.barrier();
}

TEST_CASE("training: a rank whose parameters change in the middle is found at the next comparison, and named") {
  const Comm world = Comm::world();
  if (world.size() == 1) return;
  for (const bool global : {true, false})
    for (int altered = 0; altered < world.size(); ++altered) {
      CAPTURE(global);
      CAPTURE(altered);
      Team team;
      team.config.training.epochs = 4;
      team.config.training.global_batch_norm = global;
      team.config.run.folder = team.folder.path();
      team.config.run.check_ranks = 1e-9;  // after every step
      team.config.run.checkpoint.minutes = 0;
      Data data(team.config, team.world);
      RunLog silent;
      const Plan plan = make_plan(team.config);
      Checkpoints checkpoints(team.config, plan, data.shape().samples, world.size());
      const StopSignals signals;
      SavePolicy times(team.config.run, signals);
      Saving saving{checkpoints, times};
      const RunContext ctx{*team.backend, team.world, data, silent, &saving};
      ModelState model_state = make_model_state(plan, team.config, ctx, {1, 1, 1}, 1);
      TrainingLoop loop(ctx, team.config.training);
      const Phase phase = world.rank() == altered ? otherwise_from(plan.last, 2) : plan.last;
      const std::string error = message<FaultError>([&] { loop.train(model_state, phase); });
      CAPTURE(error);
      CHECK(
          error.find(
              "the ranks disagree on the parameters in stage 1 (baseline, resolution [1]), epoch 3, after 1 steps: ") ==
          0);
      if (world.size() > 2)
        CHECK(error.find(fmt::format(": rank {} ({}) differs from the other {}; look for a faulty node", altered,
                                     host_name(), world.size() - 1)) != std::string::npos);
      else  // nobody can tell which of the two
        CHECK(error.find(fmt::format(": rank 0 ({0}), rank 1 ({0}) are not the same; look for", host_name())) !=
              std::string::npos);
      team.world.barrier();
    }
}

TEST_CASE("training: ranks are compared before the run is saved, so that no good checkpoint is replaced by a bad one") {
  Team team;
  if (team.world.size() == 1) return;
  team.config.training.epochs = 4;
  std::string folder = team.folder.path();
  team.world.broadcast(folder, 0);
  team.config.run.folder = folder;
  std::filesystem::create_directories(folder + "/checkpoints");
  team.config.run.check_ranks = 0;
  team.config.run.checkpoint.minutes = 0;
  team.config.run.checkpoint.epochs = 2;
  Data data(team.config, team.world);
  RunLog silent;
  const Plan plan = make_plan(team.config);
  Checkpoints checkpoints(team.config, plan, data.shape().samples, team.world.size());
  const StopSignals signals;
  SavePolicy times(team.config.run, signals);
  Saving saving{checkpoints, times};
  const RunContext ctx{*team.backend, team.world, data, silent, &saving};
  ModelState model_state = make_model_state(plan, team.config, ctx, {1, 1, 1}, 1);
  TrainingLoop loop(ctx, team.config.training);
  const Phase phase = team.world.root() ? otherwise_from(plan.last, 1) : plan.last;
  const std::string error = message<FaultError>([&] { loop.train(model_state, phase); });
  CHECK(error.find("the ranks disagree on the parameters in stage 1 (baseline, resolution [1]), after 2 epochs: ") ==
        0);
  team.world.barrier();
  CHECK_FALSE(std::filesystem::exists(folder + "/checkpoints/phase-1.h5"));
  team.world.barrier();
}

TEST_CASE("training: an epoch's samples are those that the ranks trained, counted where they did") {
  for (const int shards : {1, 2}) {  // of a rank; 41 samples make them uneven
    Team team;
    team.config.data.shards = shards * team.world.size();
    Data data(team.config, team.world);
    RunLog silent;
    Outcome outcome = run_pipeline(make_plan(team.config), team.config, {*team.backend, team.world, data, silent});
    const EpochRecord& epoch = outcome.phases[0].last;
    CHECK(epoch.samples == 41);
    CHECK(epoch.gflop ==
          doctest::Approx(1e-9 * (3 * 41 + 41) * outcome.model_state.model.network().flop()));  // validates on the same
    team.world.barrier();
  }
}

TEST_CASE("training: after an epoch all ranks hold the same parameters and statistics, with either batch norm") {
  for (const bool global : {true, false}) {
    CAPTURE(global);
    Team team;
    team.config.training.global_batch_norm = global;
    Data data(team.config, team.world);
    RunLog silent;
    Outcome outcome = run_pipeline(make_plan(team.config), team.config, {*team.backend, team.world, data, silent});
    const auto same = [&](ConstSpan span) {
      std::uint64_t hash = 0;
      for (const float value : span) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        hash = mix(hash, bits);
      }
      return team.world.all_equal(hash);
    };
    CHECK(same(outcome.model_state.model.params()));
    CHECK(same(outcome.model_state.model.state()));
    team.world.barrier();
  }
}
