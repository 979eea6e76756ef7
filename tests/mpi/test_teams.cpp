// A coarse and a dense model trained at once, on teams of all uneven sizes: each is what it would be had its team been
// all there is, and a run stopped on the way ends with the same bits.
#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "src/method/pipeline.hpp"
#include "src/training/training_loop.hpp"
#include "tests/support/starts.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

const Extent kQuarter{1, 1, 4}, kHalf{1, 1, 2}, kFull{1, 1, 1};

struct TeamExperiment {
  TemporaryFolder folder;
  Comm world = Comm::world();
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Config config;
  int runs = 0;

  explicit TeamExperiment(std::vector<Extent> resolutions, Index samples = 41) {
    std::string path = folder.path();
    world.broadcast(path, 0);
    config.run.folder = path;
    const std::string file = path + "/data.h5";
    if (world.root()) {
      write_floats(file, "x", {samples, 48, 2}, random_values(samples * 48 * 2, 1));
      write_floats(file, "y", {samples, 3}, random_values(samples * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.model.layers = small_layers();
    config.training.batch = 4;
    config.training.epochs = 2;
    config.training.optimizer.learning_rate = 0.01;
    config.method.name = MethodName::mrmf;
    config.method.resolutions = std::move(resolutions);
    config.method.axes = 1;
  }
  ~TeamExperiment() { world.barrier(); }

  Outcome run(Comm& ranks, TeamMode teams) {
    config.method.teams = teams;
    Data data(config, ranks);
    RunLog silent;
    return run_pipeline(make_plan(config), config, {*backend, ranks, data, silent});
  }
  // Starts that save, each run in a folder of its own.
  Starts starts() {
    Config own = config;
    own.run.folder += "/run" + std::to_string(runs++);
    return {own, *backend, world};
  }
};

// Running statistics move on in the finetune.
std::vector<float> values_of(const std::vector<LayerGroup>& groups) {
  std::vector<float> values;
  for (const LayerGroup& group : groups) values.insert(values.end(), group.params.begin(), group.params.end());
  return values;
}
std::vector<float> bottom_of(Outcome& outcome) { return values_of(outcome.model_state.model.bottom()); }
std::vector<float> top_of(Outcome& outcome) { return values_of(outcome.model_state.model.top()); }

}  // namespace

TEST_CASE("teams: the fused model has the bottom and the top that its teams would have trained alone") {
  for (int dense_ranks = 1; dense_ranks < Comm::world().size(); ++dense_ranks) {
    TeamExperiment experiment({kHalf, kFull});
    if (dense_ranks % 2 == 0) experiment.config.model.bottom.layers = {"conv1", "conv2"};  // what lies between is top
    Comm& world = experiment.world;
    const int coarse_ranks = world.size() - dense_ranks;
    CAPTURE(dense_ranks);
    experiment.config.method.team_shares = {dense_ranks, coarse_ranks};
    experiment.config.method.finetune.learning_rate = 0.0;  // the finetuned model stays as it was fused
    Outcome at_once = experiment.run(world, TeamMode::concurrent);
    REQUIRE(at_once.phases.size() == 3);
    CHECK(at_once.phases[0].last.ranks == coarse_ranks);
    CHECK(at_once.phases[1].last.ranks == dense_ranks);
    CHECK(at_once.phases[1].last.samples == 41);  // none left out
    CHECK(at_once.phases[2].last.ranks == world.size());

    const bool in_coarse = world.rank() < coarse_ranks;
    Comm team = world.split(in_coarse ? 0 : 1);
    Outcome alone = experiment.run(team, TeamMode::sequential);
    const std::size_t mine = in_coarse ? 0 : 1;
    CHECK((in_coarse ? bottom_of(at_once) == bottom_of(alone) : top_of(at_once) == top_of(alone)));
    CHECK(at_once.phases[mine].last.train_loss == alone.phases[mine].last.train_loss);
    CHECK(at_once.phases[mine].last.validation_loss == alone.phases[mine].last.validation_loss);
    // One of the two waited, however shortly.
    CHECK(std::max(at_once.phases[0].waited, at_once.phases[1].waited) > 0);
    CHECK(at_once.seconds >= std::max(at_once.phases[0].seconds, at_once.phases[1].seconds));
  }
}

TEST_CASE("teams: carried moments reach every rank, from the team that has them") {
  const int ranks = Comm::world().size();
  if (ranks == 1) return;
  for (const int dense_ranks : std::set{1, ranks - 1}) {
    CAPTURE(dense_ranks);
    TeamExperiment experiment({kHalf, kFull});
    Comm& world = experiment.world;
    Config& config = experiment.config;
    const int coarse_ranks = ranks - dense_ranks;
    config.method.team_shares = {dense_ranks, coarse_ranks};
    config.method.coarse.epochs = 3;  // the two optimizers' ages differ
    Outcome reset = experiment.run(world, TeamMode::concurrent);
    config.method.moments = MomentTransfer::carry;
    Outcome at_once = experiment.run(world, TeamMode::concurrent);
    CHECK(copy(at_once.model_state.model.params()) != copy(reset.model_state.model.params()));

    // The same by hand: each team trains its model, everything is sent to all, all fuse and finetune.
    const bool in_coarse = world.rank() < coarse_ranks;
    Comm team = world.split(in_coarse ? 0 : 1);
    const Plan plan = make_plan(config);
    const Stage& stage = plan.stages[0];
    RunLog silent;
    Data data(config, team);
    const RunContext apart{*experiment.backend, team, data, silent};
    ModelState coarse = make_model_state(plan, config, apart, kHalf, stage.coarse.seed);
    ModelState dense = make_model_state(plan, config, apart, kFull, stage.dense_seed);
    TrainingLoop(apart, config.training).train(in_coarse ? coarse : dense, in_coarse ? stage.coarse : *stage.dense);
    for (ModelState* model_state : {&coarse, &dense}) {
      const int root = model_state == &coarse ? 0 : coarse_ranks;
      world.broadcast(model_state->model.params(), root);
      world.broadcast(model_state->model.state(), root);
      for (const Span moment : model_state->optimizer.moments()) world.broadcast(moment, root);
      std::vector<std::int64_t> age{static_cast<std::int64_t>(model_state->optimizer.ages().bottom)};
      world.broadcast(age, root);
      model_state->optimizer.set_ages({static_cast<std::uint64_t>(age[0]), static_cast<std::uint64_t>(age[0])});
    }
    CHECK(coarse.optimizer.ages().bottom != dense.optimizer.ages().top);
    fuse(*experiment.backend, coarse, dense, stage.fuse);
    Data all(config, world);
    TrainingLoop(RunContext{*experiment.backend, world, all, silent}, config.training).train(dense, plan.last);
    CHECK(copy(at_once.model_state.model.params()) == copy(dense.model.params()));
    CHECK(copy(at_once.model_state.model.state()) == copy(dense.model.state()));
    for (std::size_t k = 0; k < 2; ++k)
      CHECK(copy(at_once.model_state.optimizer.moments()[k]) == copy(dense.optimizer.moments()[k]));
    CHECK(at_once.model_state.optimizer.ages() == dense.optimizer.ages());
  }
}

TEST_CASE("teams: two fusions with sizes that were measured") {
  if (Comm::world().size() == 1) return;
  TeamExperiment experiment({kQuarter, kHalf, kFull});
  Outcome outcome = experiment.run(experiment.world, TeamMode::concurrent);
  REQUIRE(outcome.phases.size() == 5);
  for (const std::size_t stage : {0U, 2U}) {
    CHECK(outcome.phases[stage].last.ranks + outcome.phases[stage + 1].last.ranks == experiment.world.size());
    CHECK(outcome.phases[stage].role == Role::coarse);
    CHECK(outcome.phases[stage + 1].role == Role::dense);
  }
  CHECK(outcome.phases[4].last.ranks == experiment.world.size());
}

TEST_CASE("teams: a run that stops after every optimizer step ends with the same bits") {
  const int ranks = Comm::world().size();
  if (ranks == 1) return;
  // All ranks get the signal; or one of the coarse team; or one of the dense team, while the other trains to its end.
  for (const int signalled : {-1, 0, ranks - 1}) {
    CAPTURE(signalled);
    TeamExperiment experiment({kQuarter, kHalf, kFull}, 23);
    experiment.config.method.teams = TeamMode::concurrent;
    experiment.config.method.team_shares = {ranks - 1, 1};
    experiment.config.training.epochs = 1;
    experiment.config.method.moments = MomentTransfer::carry;  // their ages are saved, too
    Starts one = experiment.starts(), many = experiment.starts();
    many.signalled_rank = signalled;
    const FinalState straight = one.straight(), interrupted = many.interrupted();
    CHECK(many.count > 5);
    CHECK(straight.params == interrupted.params);
    CHECK(straight.state == interrupted.state);
    CHECK(straight.losses == interrupted.losses);
    CHECK(straight.reasons == interrupted.reasons);
    CHECK(straight.reasons.size() == 5);
    CHECK(straight.losses.size() == 3 * 5);  // the records of both teams, and of all
  }
}

TEST_CASE("teams: measured sizes are kept for the resumed run, and not for another number of ranks") {
  TeamExperiment experiment({kHalf, kFull});
  std::filesystem::create_directories(experiment.config.run.folder + "/checkpoints");
  Comm& world = experiment.world;
  const auto kept = [&](const Config& config) { return read_measured_teams(config, world); };
  CHECK(kept(experiment.config).sizes.empty());
  const int ranks = world.size();
  MeasuredTeams measured;
  measured.sizes[1] = {ranks + 2, 1};
  measured.sizes[2] = {ranks - 1, 1};
  // Seconds count for this configuration on these ranks alone, and sizes go with them before anything is trained.
  measured.seconds[{3, Role::dense}] = 0.25;
  write_measured_teams(measured, experiment.config, world);
  world.barrier();
  const MeasuredTeams again = kept(experiment.config);
  CHECK(again.sizes == measured.sizes);
  CHECK(again.seconds == measured.seconds);
  const RunConfig& run = experiment.config.run;
  CHECK_FALSE(measured_sizes(again, 3, run, ranks));
  CHECK_THROWS_WITH_AS(measured_sizes(again, 1, run, ranks), doctest::Contains("were measured on"), ConfigError);
  if (ranks > 1) CHECK(measured_sizes(again, 2, run, ranks) == TeamSizes{ranks - 1, 1});
  Config other = experiment.config;
  other.training.seed = 77;
  CHECK(kept(other).sizes == measured.sizes);
  CHECK(kept(other).seconds.empty());
  world.barrier();
  forget_teams_of_others(experiment.config, world);
  world.barrier();
  CHECK(kept(experiment.config).seconds == measured.seconds);
  world.barrier();
  forget_teams_of_others(other, world);
  world.barrier();
  CHECK(kept(experiment.config).sizes.empty());
  CHECK(kept(experiment.config).seconds.empty());
  write_measured_teams(measured, experiment.config, world);
  world.barrier();
  forget_teams(experiment.config.run, world);
  world.barrier();
  CHECK(kept(experiment.config).sizes.empty());
}
