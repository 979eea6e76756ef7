// Plans of every method, step by step.
#include <doctest/doctest.h>

#include <set>

#include "src/plan/plan.hpp"

using namespace mrmf;

namespace {

Config config(MethodName method, std::vector<Extent> resolutions) {
  Config c;
  c.method.name = method;
  c.method.resolutions = std::move(resolutions);
  c.method.target = 0.04;
  c.training.epochs = 7;
  return c;
}

const Extent kQuarter{1, 1, 4}, kHalf{1, 1, 2}, kFull{1, 1, 1};

std::vector<Role> roles(const Plan& plan) {
  std::vector<Role> result;
  for (const Phase& phase : plan.phases()) result.push_back(phase.role);
  return result;
}

}  // namespace

TEST_CASE("plan: baseline is one phase with the target") {
  const Plan plan = make_plan(config(MethodName::baseline, {kFull}));
  CHECK(plan.stages.empty());
  CHECK(plan.last.role == Role::baseline);
  CHECK(plan.last.stop.target == 0.04);
  CHECK(plan.last.stop.epochs == 7);
}

TEST_CASE("plan: MRT transfers the bottom and starts the top fresh, with no dense training") {
  const Plan plan = make_plan(config(MethodName::mrt, {kHalf, kFull}));
  REQUIRE(plan.stages.size() == 1);
  CHECK(plan.stages[0].fuse.top == TopRule::fresh);
  CHECK_FALSE(plan.stages[0].dense.has_value());
  CHECK(roles(plan) == std::vector<Role>{Role::coarse, Role::finetune});
}

TEST_CASE("plan: MRMF with two fusions follows Figure 2") {
  const Plan plan = make_plan(config(MethodName::mrmf, {kQuarter, kHalf, kFull}));
  REQUIRE(plan.stages.size() == 2);
  CHECK(roles(plan) == std::vector<Role>{Role::coarse, Role::dense, Role::coarse, Role::dense, Role::finetune});
  CHECK(plan.stages[0].coarse.resolution == kQuarter);
  CHECK(plan.stages[0].dense->resolution == kHalf);
  CHECK(plan.stages[0].fuse.to == kHalf);
  CHECK(plan.stages[1].coarse.resolution == kHalf);  // the fused model continues at its resolution
  CHECK(plan.stages[1].dense->resolution == kFull);
  CHECK(plan.last.resolution == kFull);
  CHECK_FALSE(plan.stages[0].coarse.stop.target.has_value());  // the target ends the last phase only
  CHECK(plan.last.stop.target == 0.04);
}

TEST_CASE("plan: every model starts from its own seed") {
  const Plan plan = make_plan(config(MethodName::mrmf, {kQuarter, kHalf, kFull}));
  const std::set<std::uint64_t> seeds{plan.stages[0].coarse.seed, plan.stages[0].dense_seed, plan.stages[1].dense_seed};
  CHECK(seeds.size() == 3);
  CHECK(plan.stages[0].dense->seed == plan.stages[0].dense_seed);
}

TEST_CASE("plan: an interpolated top needs no dense training") {
  Config c = config(MethodName::mrmf, {kHalf, kFull});
  c.method.top = TopRule::interpolated;
  const Plan plan = make_plan(c);
  CHECK(roles(plan) == std::vector<Role>{Role::coarse, Role::finetune});
  CHECK(plan.stages[0].fuse.top == TopRule::interpolated);
}

TEST_CASE("plan: a fresh bottom needs no coarse training") {
  Config c = config(MethodName::mrmf, {kHalf, kFull});
  c.method.bottom = BottomRule::fresh;
  const Plan plan = make_plan(c);
  CHECK(roles(plan) == std::vector<Role>{Role::dense, Role::finetune});
  CHECK(plan.resolutions() == std::vector<Extent>{kHalf, kFull});
  CHECK(to_text(plan).find("bottom fresh, top from dense") != std::string::npos);
  c.method.curve = RateScope::run;  // the untrained model has no share of the curve
  CHECK(make_plan(c).stages[0].dense->curve.begin == 0);
}

TEST_CASE("plan: moments cannot be carried where layers start fresh") {
  for (const MethodName method : {MethodName::mrt, MethodName::progressive}) {
    Config c = config(method, {kHalf, kFull});
    c.method.moments = MomentTransfer::carry;
    CHECK_THROWS_WITH_AS(make_plan(c), doctest::Contains("method.moments"), ConfigError);
  }
  Config c = config(MethodName::mrmf, {kHalf, kFull});
  c.method.moments = MomentTransfer::carry;
  CHECK(make_plan(c).stages[0].fuse.moments == MomentTransfer::carry);
  c.method.bottom = BottomRule::fresh;
  CHECK_THROWS_WITH_AS(make_plan(c), doctest::Contains("the bottom has no moments"), ConfigError);
}

TEST_CASE("plan: progressive carries over what fits") {
  const Plan plan = make_plan(config(MethodName::progressive, {kHalf, kFull}));
  CHECK(plan.stages[0].fuse.matching);
  CHECK(roles(plan) == std::vector<Role>{Role::coarse, Role::finetune});
}

TEST_CASE("plan: settings per role, and per stage over those") {
  Config c = config(MethodName::mrmf, {kQuarter, kHalf, kFull});
  c.training.batch = 64;
  c.method.coarse.batch = 256;
  c.method.coarse.threshold = 2e-3;
  c.method.coarse.patience = 5;
  c.method.dense.epochs = 2;
  c.method.finetune.rule = RateRule::cosine;
  c.training.metric = Metric::dice;
  c.method.coarse.metric = 0.8;
  c.method.stages = {StageOverride{}, StageOverride{}};
  c.method.stages[1].coarse.batch = 128;
  c.method.stages[1].coarse.metric = 0.9;
  c.method.stages[1].dense.learning_rate = 5e-4;
  const Plan plan = make_plan(c);
  CHECK(plan.stages[0].coarse.batch == 256);
  CHECK(plan.stages[1].coarse.batch == 128);
  CHECK(plan.stages[1].coarse.stop.threshold == 2e-3);
  CHECK(plan.stages[1].coarse.stop.patience == 5);
  CHECK(plan.stages[0].coarse.stop.metric_target == MetricTarget{Metric::dice, 0.8});
  CHECK(plan.stages[1].coarse.stop.metric_target == MetricTarget{Metric::dice, 0.9});
  CHECK_FALSE(plan.last.stop.metric_target);
  c.method.finetune.metric = 0.7;
  CHECK(make_plan(c).last.stop.metric_target == MetricTarget{Metric::dice, 0.7});
  c.method.metric_target = MetricTarget{Metric::dice, 0.75};
  CHECK(make_plan(c).last.stop.metric_target == MetricTarget{Metric::dice, 0.75});
  CHECK(plan.stages[0].dense->stop.epochs == 2);
  CHECK(plan.stages[0].dense->batch == 64);
  CHECK(plan.stages[0].dense->optimizer.learning_rate == 1e-3);
  CHECK(plan.stages[1].dense->optimizer.learning_rate == 5e-4);
  CHECK(plan.last.optimizer.rule == RateRule::cosine);
  CHECK(plan.stages[0].coarse.optimizer.rule == RateRule::constant);
}

TEST_CASE("plan: one curve over the run is shared out by epochs") {
  Config c = config(MethodName::mrt, {kHalf, kFull});
  c.method.curve = RateScope::run;
  c.method.coarse.epochs = 6;
  c.method.finetune.epochs = 2;
  const Plan plan = make_plan(c);
  CHECK(plan.stages[0].coarse.curve == CurvePart{0, 0.75});
  CHECK(plan.last.curve == CurvePart{0.75, 1.0});
}

TEST_CASE("plan: the text names every step in order") {
  Config c = config(MethodName::mrmf, {{2, 2, 2}, kFull});
  c.method.dense.epochs = 1;
  const std::string text = to_text(make_plan(c));
  CHECK(text.find("plan: mrmf, 1 fusion\n") == 0);
  const std::vector<std::string> in_order{"train  coarse",
                                          "[2,2,2]",
                                          "train  dense",
                                          "until 1 epoch\n",
                                          "bottom from coarse, top from dense",
                                          "train  finetune",
                                          "validation loss <= 0.04"};
  std::size_t at = 0;
  for (const std::string& part : in_order) {
    at = text.find(part, at);
    CHECK_MESSAGE(at != std::string::npos, part);
  }
}

TEST_CASE("plan: resolutions have a factor for each of the data's axes") {
  Config c = config(MethodName::mrt, {{1, 1, 2}, kFull});
  c.method.axes = 3;
  const Plan plan = make_plan(c);
  CHECK(to_text(plan).find("resolution [1,1,2]") != std::string::npos);
  CHECK(to_text(plan).find("fuse   [1,1,2] -> [1,1,1]:") != std::string::npos);
  CHECK(to_json(plan).find("\"resolution\": [\n        1,\n        1,\n        2\n") != std::string::npos);
  c.method.axes = 1;
  CHECK(to_text(make_plan(c)).find("fuse   [2] -> [1]:") != std::string::npos);
  CHECK(resolution_text({1, 2, 1}, 0) == "[2,1]");  // what is not 1 is never left out
}
