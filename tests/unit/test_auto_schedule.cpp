// What method.name = "auto" chooses, and that it can be written by hand.
#include <doctest/doctest.h>

#include "src/method/auto_schedule.hpp"
#include "src/plan/plan.hpp"

using namespace mrmf;

namespace {

std::string automatic(const std::string& layers, const std::string& training = "epochs = 10") {
  return "[data]\nfiles = [\"a.h5\"]\ntrain = { samples = \"x\", labels = \"y\" }\n"
         "validation = { samples = \"x\", labels = \"y\" }\n"
         "[model]\n" +
         layers + "\n[training]\n" + training + "\n[method]\nname = \"auto\"\n";
}

const std::string kConvolutions =
    "layers = [{ type = \"conv\", filters = 8, kernel = 3, padding = \"same\" }, { type = \"relu\" },\n"
    "  { type = \"average_pool\", window = 2 }, { type = \"flatten\" }, { type = \"dense\", units = 4 }]";

Config read(const std::string& text) {
  Config config = parse_config(text, "c.toml", {});
  settle_axes(config.model.layers, 3);
  return config;
}

const Shape kCube{.n = 0, .spatial = {16, 16, 16}, .channels = 2, .axes = 3};

}  // namespace

TEST_CASE("auto: a coarse model is trained long, full resolution briefly, and the cost is that of the plan") {
  const Config config = read(automatic(kConvolutions));
  const AutoSchedule chosen = choose_schedule(config, kCube);
  const Plan plan = make_plan(chosen.config);
  REQUIRE(plan.stages.size() == 1);
  CHECK(plan.stages[0].coarse.resolution == Extent{2, 2, 2});
  CHECK(plan.stages[0].coarse.optimizer.rule == RateRule::constant);
  CHECK(plan.stages[0].fuse.top == TopRule::interpolated);
  CHECK(plan.last.optimizer.rule == RateRule::linear);
  const Plan cosine = make_plan(
      choose_schedule(read(automatic(kConvolutions, "epochs = 10\noptimizer.rule = \"cosine\"")), kCube).config);
  CHECK(cosine.stages[0].coarse.optimizer.rule == RateRule::constant);
  CHECK(cosine.last.optimizer.rule == RateRule::cosine);
  CHECK(chosen.config.training.precise_batch_norm == 1);  // a batch has 512 samples
  CHECK(choose_schedule(read(automatic(kConvolutions, "epochs = 10\nbatch = 48")), kCube)
            .config.training.precise_batch_norm == 11);
  CHECK(plan.last.stop.epochs < 5);
  CHECK(plan.stages[0].coarse.stop.epochs > plan.last.stop.epochs);
  CHECK(chosen.training_cost == doctest::Approx(training_cost(chosen.config, plan, kCube)));
  CHECK(chosen.training_cost < 0.5 * chosen.baseline_training_cost);
  CHECK(chosen.baseline_training_cost == 10);
  // A coarse epoch is an eighth: the convolution and the dense layer have an eighth of the positions.
  CHECK(training_cost(chosen.config, plan, kCube) ==
        doctest::Approx(plan.last.stop.epochs + plan.stages[0].coarse.stop.epochs / 8.0).epsilon(0.01));
}

TEST_CASE("auto: the choice rests on the arithmetic of training, whatever statistics cost") {
  const std::string many = "epochs = 10\nprecise_batch_norm = 100000";
  const AutoSchedule plain = choose_schedule(read(automatic(kConvolutions)), kCube),
                     dear = choose_schedule(read(automatic(kConvolutions, many)), kCube);
  CHECK(dear.training_cost == plain.training_cost);
  CHECK(dear.baseline_training_cost == plain.baseline_training_cost);
  CHECK(to_json(make_plan(dear.config)) == to_json(make_plan(plain.config)));
}

TEST_CASE(
    "auto: a network that knows no resolution is handed over whole, another one of its cost goes behind a front") {
  const auto way_with = [](const std::string& middle, Handover handover) {
    Config config =
        parse_config(automatic("layers = [{ type = \"conv\", filters = 4, kernel = 3, padding = \"same\" }, " + middle +
                               ", { type = \"dense\", units = 4 }]"),
                     "c.toml", {});
    settle_axes(config.model.layers, 2);
    Shape plane = kCube;
    plane.axes = 2;
    plane.spatial = {1, 64, 64};
    config.method.handover = handover;
    const MethodConfig chosen = choose_schedule(config, plane).config.method;
    return std::pair(chosen.top, chosen.moments);
  };
  using Way = std::pair<TopRule, Moments>;
  const std::string pool = "{ type = \"global_average_pool\" }",
                    flatten = "{ type = \"average_pool\", window = 8 }, { type = \"flatten\" }";
  CHECK(way_with(pool, Handover::last) == Way{TopRule::interpolated, Moments::reset});
  CHECK(way_with(flatten, Handover::last) == Way{TopRule::front, Moments::carry});
  CHECK(way_with(flatten, Handover::best) == Way{TopRule::front, Moments::reset});  // the best epoch's are not kept
}

TEST_CASE("auto: axes are averaged as far as their positions allow") {
  const auto levels_of = [](const Extent& positions) {
    Shape sample = kCube;
    sample.spatial = positions;
    std::vector<Extent> resolutions;
    for (const CoarseLevel& level : coarse_levels(read(automatic(kConvolutions)), sample).usable)
      resolutions.push_back(level.resolution);
    return resolutions;
  };
  using Levels = std::vector<Extent>;
  CHECK(levels_of({16, 16, 16}) == Levels{{4, 4, 4}, {2, 2, 2}});
  CHECK(levels_of({16, 15, 16}) == Levels{{4, 1, 4}, {2, 1, 2}});
  CHECK(levels_of({16, 18, 16}) == Levels{{4, 2, 4}, {2, 2, 2}});
  CHECK(levels_of({15, 15, 18}) == Levels{{1, 1, 2}});

  Shape sample = kCube;
  sample.spatial = {16, 15, 16};
  const AutoSchedule chosen = choose_schedule(read(automatic(kConvolutions)), sample);
  CHECK(chosen.config.method.resolutions == std::vector<Extent>{{2, 1, 2}, {1, 1, 1}});
  REQUIRE(chosen.reasons.size() == 4);
  CHECK(chosen.reasons[1].find("odd number of positions") != std::string::npos);
}

TEST_CASE("auto: the chosen configuration, written by hand, is the same plan") {
  const AutoSchedule chosen = choose_schedule(read(automatic(kConvolutions)), kCube);
  const Config again = parse_config(to_toml(chosen.config), "c.toml", {});
  CHECK(again == chosen.config);
  CHECK(to_json(make_plan(again)) == to_json(make_plan(chosen.config)));
}

TEST_CASE("auto: where nothing would be saved it is the baseline, and says why") {
  const auto why = [](const Config& config, const Shape& sample) {
    const AutoSchedule chosen = choose_schedule(config, sample);
    CHECK(chosen.config.method.name == MethodName::baseline);
    CHECK(make_plan(chosen.config).stages.empty());
    CHECK(chosen.training_cost == chosen.baseline_training_cost);
    return chosen.reasons.front();
  };
  Shape odd = kCube;
  odd.spatial = {15, 15, 15};
  CHECK(why(read(automatic(kConvolutions)), odd).starts_with("averages of 2 fit no axis of 15x15x15x2"));
  const std::string positions = "layers = [{ type = \"conv\", filters = 2, kernel = 3 }]";
  CHECK(why(read(automatic(positions)), kCube) ==
        "resolution [2,2,2] cannot be used: the network's output there is 6x6x6x2, and labels for 14x14x14x2 are "
        "averaged to 7x7x7x2");
  CHECK(why(read(automatic(kConvolutions, "epochs = 1")), kCube).find("too few") != std::string::npos);
  // Two positions after the pooling, however long the sample: all that costs is the second dense layer.
  const Config dense = read(automatic(
      "layers = [{ type = \"conv\", filters = 2, kernel = 1, stride = 8 }, { type = \"flatten\" },\n"
      "  { type = \"dense\", units = 512 }, { type = \"dense\", units = 512 }, { type = \"dense\", units = 4 }]"));
  CHECK(why(dense, kCube).find("too little to save") != std::string::npos);
}

TEST_CASE("auto: the schedule's own keys are refused beside it, its target is not") {
  const std::string text = automatic(kConvolutions);
  for (const char* key : {"method.resolutions=[[2],[1]]", "method.top=interpolated", "method.stop.coarse.epochs=3"}) {
    CAPTURE(key);
    CHECK_THROWS_WITH_AS(parse_config(text, "c.toml", {key}), doctest::Contains("chooses the schedule by itself"),
                         ConfigError);
  }
  const Config config = parse_config(text, "c.toml", {"method.target.validation_loss=0.1"});
  CHECK(choose_schedule(config, kCube).config.method.target == 0.1);
  CHECK(parse_config(to_toml(config), "c.toml", {}) == config);  // effective configurations spell every key out
  CHECK_THROWS_WITH_AS(make_plan(config), doctest::Contains("mrmf plan"), ConfigError);
}
