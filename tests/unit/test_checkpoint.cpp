// A run that is stopped after every single optimizer step ends with the same bits as one that is not.
#include <doctest/doctest.h>

#include "tests/support/starts.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct CheckpointExperiment {
  TemporaryFolder folder;
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Comm team = Comm::self();
  Config config;

  CheckpointExperiment() {
    const std::string file = folder.file("data.h5");
    write_floats(file, "x", {20, 40, 2}, random_values(20 * 40 * 2, 1));
    write_floats(file, "y", {20, 3}, random_values(20 * 3, 2));
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.model.layers = small_layers();
    LayerSpec dropout = layer(LayerKind::dropout);
    dropout.rate = 0.2F;
    config.model.layers.insert(config.model.layers.end() - 1, dropout);
    name_layers(config.model.layers);
    config.training.batch = 8;
    config.training.epochs = 2;
    config.training.optimizer.learning_rate = 0.01;
    config.method.name = MethodName::mrmf;
    config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
    config.method.axes = 1;
  }

  Starts starts(const std::string& run) {
    config.run.folder = folder.file(run);
    return {config, *backend, team};
  }

  /// Starts of the interrupted run.
  int compare() {
    const FinalState straight = starts("straight").straight();
    Starts many = starts("interrupted");
    const FinalState interrupted = many.interrupted();
    CHECK(interrupted.params == straight.params);
    CHECK(interrupted.state == straight.state);
    CHECK(interrupted.losses == straight.losses);
    CHECK(interrupted.reasons == straight.reasons);
    return many.count;
  }
};

// After 3 steps of 8, 8 and 4 samples, and after the validation, of both epochs of each of the plan's phases.
constexpr int kStops = (3 + 1) * 2;

}  // namespace

TEST_CASE("checkpoint: stopped after every step, every method ends with the same bits") {
  for (const MethodName method : {MethodName::mrmf, MethodName::mrt, MethodName::progressive}) {
    CAPTURE(to_string(method));
    CheckpointExperiment experiment;
    experiment.config.method.name = method;
    if (method == MethodName::mrt) experiment.config.method.top = TopRule::fresh;
    CHECK(experiment.compare() == (method == MethodName::mrmf ? 3 : 2) * kStops);  // the end of the run is no stop
  }
}

TEST_CASE("checkpoint: so does a run of two fusions with an interpolated top and moments that are carried over") {
  CheckpointExperiment experiment;
  experiment.config.method.resolutions = {{1, 1, 4}, {1, 1, 2}, {1, 1, 1}};
  experiment.config.method.top = TopRule::interpolated;
  experiment.config.method.moments = MomentTransfer::carry;
  experiment.compare();
}

TEST_CASE("checkpoint: so do other optimizers, learning-rate rules and stop rules") {
  CheckpointExperiment experiment;
  OptimizerSettings& optimizer = experiment.config.training.optimizer;
  experiment.config.training.epochs = 4;
  SUBCASE("sgd, reduce on plateau") {
    optimizer.name = OptimizerKind::sgd;
    optimizer.learning_rate = 0.3;
    optimizer.rule = RateRule::plateau;
    optimizer.patience = 0;
    optimizer.cooldown = 1;
  }
  SUBCASE("adamw, cosine over the run") {
    optimizer.name = OptimizerKind::adamw;
    optimizer.rule = RateRule::cosine;
    experiment.config.method.curve = RateScope::run;
  }
  SUBCASE("stopped by the threshold") {
    for (RoleSettings* role : {&experiment.config.method.coarse, &experiment.config.method.dense})
      role->threshold = 10.0;
    experiment.config.method.coarse.patience = 2;
    experiment.config.method.dense.patience = 1;
  }
  SUBCASE("the best epoch is transferred, and early stopping") {
    experiment.config.method.transfer = TransferEpoch::best;
    experiment.config.training.early_stopping.patience = 2;
    optimizer.rule = RateRule::piecewise;
    optimizer.boundaries = {1};
    optimizer.factor = 100;  // only the first epoch improves
  }
  SUBCASE("clipped, in parts") {
    experiment.config.training.clip_norm = 0.1;
    experiment.config.training.accumulate = 2;
  }
  experiment.compare();
}

TEST_CASE("checkpoint: the parts of a run add up to its seconds, and a finished step is not trained again") {
  CheckpointExperiment experiment;
  experiment.config.method.coarse.epochs = 1;
  Starts many = experiment.starts("run");
  const Timer timer;
  const FinalState left = many.interrupted();
  CHECK(many.seconds > 0);
  CHECK(many.seconds < timer.seconds());
  CHECK(left.losses.size() == 3 * (1 + 2 + 2));
}

TEST_CASE("checkpoint: files of a stage are kept until the next stage's first is there") {
  CheckpointExperiment experiment;
  Starts many = experiment.starts("run");
  const auto there = [&](int number) {
    return std::filesystem::exists(experiment.config.run.folder + "/checkpoints/phase-" + std::to_string(number) +
                                   ".h5");
  };
  for (int i = 0; i < kStops; ++i) CHECK_FALSE(many.start(true));
  CHECK(there(1));
  CHECK_FALSE(there(2));
  for (int i = 0; i < kStops; ++i) CHECK_FALSE(many.start(true));
  CHECK(there(1));
  CHECK(there(2));
  CHECK_FALSE(there(3));
  CHECK_FALSE(many.start(true));  // fuses, and does the last step's first optimizer step
  CHECK_FALSE(there(1));
  CHECK_FALSE(there(2));
  CHECK(there(3));
}

TEST_CASE("checkpoint: a file of the last stage that was removed is made again from the one before") {
  CheckpointExperiment experiment;
  const FinalState straight = experiment.starts("straight").straight();
  Starts many = experiment.starts("run");
  for (int i = 0; i < kStops + 2; ++i) CHECK_FALSE(many.start(true));
  std::filesystem::remove(experiment.config.run.folder + "/checkpoints/phase-2.h5");
  CHECK(many.interrupted() == straight);
}

TEST_CASE("checkpoint: saving every epoch and every few moments changes nothing, either") {
  CheckpointExperiment experiment;
  const FinalState straight = experiment.starts("straight").straight();
  experiment.config.run.checkpoint = {1, 1e-9};
  CHECK(experiment.starts("saving").straight() == straight);
}
