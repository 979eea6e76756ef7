// The pipeline on real files: what reaches the final model. With nothing shuffled, no dropout and a finetune that
// cannot move (learning rate 0), the results must be equal to the last bit.
#include <doctest/doctest.h>

#include "src/method/pipeline.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct PipelineExperiment {
  TemporaryFolder folder;
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Comm team = Comm::self();
  Config config;

  PipelineExperiment() {
    const std::string file = folder.file("data.h5");
    write_floats(file, "x", {24, 40, 2}, random_values(24 * 40 * 2, 1));
    write_floats(file, "y", {24, 3}, random_values(24 * 3, 2));
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.data.shuffle = false;
    config.model.layers = small_layers();
    config.training.batch = 8;
    config.training.epochs = 2;
    config.training.optimizer.learning_rate = 0.01;
    config.method.finetune.epochs = 1;
  }

  Outcome run(MethodName method, std::vector<Extent> resolutions, std::optional<double> finetune_rate) {
    config.method.name = method;
    config.method.resolutions = std::move(resolutions);
    config.method.finetune.learning_rate = finetune_rate;
    Data data(config, team);
    RunLog silent;
    return run_pipeline(make_plan(config), config, {*backend, team, data, silent});
  }
};

const Extent kHalved{1, 1, 2}, kOriginal{1, 1, 1};

std::vector<float> trained_part(const std::vector<LayerGroup>& groups) { return copy(groups.front().params); }

}  // namespace

TEST_CASE("data: resolutions that are averaged from one stream of originals have room for the largest batch of all") {
  PipelineExperiment experiment;
  experiment.config.method.name = MethodName::mrt;
  experiment.config.method.resolutions = {kHalved, kOriginal};
  experiment.config.method.coarse.batch = 4;
  const auto room = [&] {
    Data data(experiment.config, experiment.team);
    return data.train().batch_rows;
  };
  CHECK(room() == std::map<Extent, Index>{{kHalved, 4}, {kOriginal, 8}});
  experiment.config.data.averaging = Averaging::epoch;
  CHECK(room() == std::map<Extent, Index>{{kHalved, 8}, {kOriginal, 8}});
}

TEST_CASE("pipeline: MRT ends with the bottom that the coarse model learnt") {
  PipelineExperiment experiment;
  Outcome mrt = experiment.run(MethodName::mrt, {kHalved, kOriginal}, 0.0);
  REQUIRE(mrt.phases.size() == 2);
  CHECK(mrt.model_state.resolution == kOriginal);
  experiment.config.method.finetune.epochs = 2;  // the baseline's settings: the same training as the coarse model's
  Outcome coarse = experiment.run(MethodName::baseline, {kHalved}, std::nullopt);
  CHECK(trained_part(mrt.model_state.model.bottom()) == trained_part(coarse.model_state.model.bottom()));
}

TEST_CASE("pipeline: MRMF ends with the bottom of the coarse and the top of the dense model") {
  PipelineExperiment experiment;
  experiment.config.method.dense.learning_rate = 0.0;  // a dense model that stays as it was made
  Outcome mrmf = experiment.run(MethodName::mrmf, {kHalved, kOriginal}, 0.0);
  REQUIRE(mrmf.phases.size() == 3);
  Outcome mrt = experiment.run(MethodName::mrt, {kHalved, kOriginal}, 0.0);
  CHECK(trained_part(mrmf.model_state.model.bottom()) == trained_part(mrt.model_state.model.bottom()));
  CHECK(trained_part(mrmf.model_state.model.top()) ==
        trained_part(mrt.model_state.model.top()));  // made from the same seed
  experiment.config.method.dense.learning_rate = 0.01;
  Outcome learnt = experiment.run(MethodName::mrmf, {kHalved, kOriginal}, 0.0);
  CHECK(trained_part(learnt.model_state.model.bottom()) == trained_part(mrt.model_state.model.bottom()));
  CHECK(trained_part(learnt.model_state.model.top()) != trained_part(mrt.model_state.model.top()));
}

TEST_CASE(
    "pipeline: with a fresh bottom the dense model's top continues upon new convolutions, and no coarse one is "
    "trained") {
  PipelineExperiment experiment;
  experiment.config.method.bottom = BottomRule::fresh;
  Outcome top = experiment.run(MethodName::mrmf, {kHalved, kOriginal}, 0.0);
  REQUIRE(top.phases.size() == 2);
  CHECK(top.phases[0].role == Role::dense);
  // The bottom is that of a coarse model which is trained but learns nothing.
  experiment.config.method.bottom = BottomRule::coarse;
  experiment.config.method.coarse.learning_rate = 0.0;
  Outcome both = experiment.run(MethodName::mrmf, {kHalved, kOriginal}, 0.0);
  CHECK(trained_part(top.model_state.model.bottom()) == trained_part(both.model_state.model.bottom()));
  CHECK(trained_part(top.model_state.model.top()) == trained_part(both.model_state.model.top()));
}

TEST_CASE("pipeline: seconds of the epochs add up to the run's") {
  PipelineExperiment experiment;
  const Outcome outcome = experiment.run(MethodName::mrmf, {{1, 1, 4}, kHalved, kOriginal}, std::nullopt);
  REQUIRE(outcome.phases.size() == 5);
  // What passes between the run's start and its first trainer is in no epoch: nothing where the clock is coarse, more
  // than the run takes where the process is descheduled. So the epochs may round to a little more, and no bound is
  // known.
  const PhaseRecord& first = outcome.phases.front();
  CHECK(first.seconds > 0);
  CHECK(first.seconds <= first.last.total_seconds + 1e-9);
  // After that every second is a stage's: sums and differences of doubles, so exact but for rounding. Seconds of the
  // first stage that were in no epoch would be missing in the totals of the later ones, as those of any stage.
  double seconds = first.last.total_seconds;
  for (std::size_t i = 1; i < outcome.phases.size(); ++i) {
    CHECK(outcome.phases[i].seconds > 0);
    seconds += outcome.phases[i].seconds;
    CHECK(outcome.phases[i].last.total_seconds == doctest::Approx(seconds).epsilon(1e-9));
  }
  CHECK(seconds <= outcome.seconds + 1e-9);
}
