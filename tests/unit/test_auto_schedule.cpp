// What method.name = "auto" chooses, and that it can be written by hand.
#include <doctest/doctest.h>

#include "src/method/auto_schedule_and_tune.hpp"
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

Config config_on_cubes(const std::string& text) {
  Config config = parse_config(text, "c.toml", {});
  resolve_axes(config.model.layers, 3);
  return config;
}

const Shape kCube{.n = 0, .spatial = {16, 16, 16}, .channels = 2, .axes = 3};

}  // namespace

TEST_CASE("auto: a coarse model is trained long, full resolution briefly, and the cost is that of the plan") {
  const Config config = config_on_cubes(automatic(kConvolutions));
  const AutoSchedule chosen = choose_schedule(config, kCube);
  const Plan plan = make_plan(chosen.config);
  REQUIRE(plan.stages.size() == 1);
  CHECK(plan.stages[0].coarse.resolution == Extent{2, 2, 2});
  CHECK(plan.stages[0].coarse.optimizer.rule == RateRule::constant);
  CHECK(plan.stages[0].fuse.top == TopRule::interpolated);
  CHECK(plan.last.optimizer.rule == RateRule::linear);
  const Plan cosine = make_plan(
      choose_schedule(config_on_cubes(automatic(kConvolutions, "epochs = 10\noptimizer.rule = \"cosine\"")), kCube)
          .config);
  CHECK(cosine.stages[0].coarse.optimizer.rule == RateRule::constant);
  CHECK(cosine.last.optimizer.rule == RateRule::cosine);
  CHECK(chosen.config.training.precise_batch_norm == 1);  // a batch has 512 samples
  CHECK(choose_schedule(config_on_cubes(automatic(kConvolutions, "epochs = 10\nbatch = 48")), kCube)
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

TEST_CASE("auto: without the number of samples the choice rests on the arithmetic of training") {
  const std::string many = "epochs = 10\nprecise_batch_norm = 100000";
  const AutoSchedule plain = choose_schedule(config_on_cubes(automatic(kConvolutions)), kCube),
                     dear = choose_schedule(config_on_cubes(automatic(kConvolutions, many)), kCube);
  CHECK(dear.training_cost == plain.training_cost);
  CHECK(dear.baseline_training_cost == plain.baseline_training_cost);
  CHECK(to_json(make_plan(dear.config)) == to_json(make_plan(plain.config)));
}

namespace {

/// With a batch norm, and in this order: behind a stem, transferred whole, with an interpolated top.
struct TransferCase {
  const char* layers;
  int axes;
  TopRule top;
};
const TransferCase kTransferCases[] = {
    {"layers = [{ type = \"conv\", filters = 4, kernel = 3, padding = \"same\" }, { type = \"batch_norm\" },\n"
     "  { type = \"average_pool\", window = 4 }, { type = \"flatten\" }, { type = \"dense\", units = 2 }]",
     1, TopRule::stem},
    {"layers = [{ type = \"conv\", filters = 4, kernel = 3, padding = \"same\" }, { type = \"batch_norm\" },\n"
     "  { type = \"global_average_pool\" }, { type = \"dense\", units = 2 }]",
     1, TopRule::interpolated},
    {"layers = [{ type = \"conv\", filters = 4, kernel = 3, padding = \"same\" }, { type = \"batch_norm\" },\n"
     "  { type = \"average_pool\", window = 2 }, { type = \"flatten\" }, { type = \"dense\", units = 2 }]",
     3, TopRule::interpolated}};

Shape cube(int axes) {
  Shape sample{.n = 0, .spatial = {1, 1, 1}, .channels = 2, .axes = axes};
  for (int a = 3 - axes; a < 3; ++a) sample.spatial[static_cast<std::size_t>(a)] = 16;
  return sample;
}

Config way_config(const TransferCase& way, int epochs, int batch, const std::vector<std::string>& more = {}) {
  const std::string training = "epochs = " + std::to_string(epochs) + "\nbatch = " + std::to_string(batch);
  Config config = parse_config(automatic(way.layers, training), "c.toml", more);
  resolve_axes(config.model.layers, way.axes);
  return config;
}

}  // namespace

TEST_CASE("auto: it never plans what costs as much as the baseline, and large sets still have a coarse model") {
  const std::vector<std::vector<std::string>> all_keys{
      {}, {"training.early_stopping.patience=3"}, {"training.precise_batch_norm=2"}};
  for (const TransferCase& way : kTransferCases) {
    const Shape sample = cube(way.axes);
    for (const double samples : {16, 64, 200, 512, 1000, 4096})
      for (int epochs = 1; epochs <= 12; ++epochs)
        for (const int ranks : {1, 2, 3, 8})
          for (const std::vector<std::string>& more : all_keys) {
            CAPTURE(way.layers);
            CAPTURE(samples);
            CAPTURE(epochs);
            CAPTURE(ranks);
            const Config config = way_config(way, epochs, 8, more);
            const RunSize size{samples, samples / 4, ranks};
            const Config chosen = choose_schedule(config, sample, size).config, alone = baseline_of(config);
            const RunCost own = run_cost(chosen, make_plan(chosen), sample, size),
                          baseline = run_cost(alone, make_plan(alone), sample, size);
            const bool saves = chosen.method.name != MethodName::baseline;
            CHECK((saves ? own.epochs < baseline.epochs : own.epochs == baseline.epochs));
            if (saves) CHECK(chosen.method.top == way.top);
            if (epochs >= 8 && more.empty()) CHECK((saves || samples < 4096));
          }
  }
}

TEST_CASE("auto: recalibration takes 512 samples of all ranks together, and the baseline says what they would cost") {
  const Shape sample = cube(1);
  const auto chosen = [&](double samples, int ranks, const std::vector<std::string>& more = {}) {
    return choose_schedule(way_config(kTransferCases[0], 8, 16, more), sample, RunSize{samples, 100, ranks}).config;
  };
  const auto batches = [&](int ranks, const std::vector<std::string>& more = {}) {
    return chosen(4096, ranks, more).training.precise_batch_norm;
  };
  CHECK(batches(1) == 32);
  CHECK(batches(2) == 16);
  CHECK(batches(8) == 4);
  CHECK(batches(64) == 1);
  CHECK(batches(8, {"run.grid=[2]"}) == 8);  // two ranks share a sample
  for (const int ranks : {2, 4, 8}) {
    const auto statistics = [&](int of) {
      const Config config = chosen(4096, of);
      return run_cost(config, make_plan(config), sample, RunSize{4096, 100, of}).statistics;
    };
    CHECK(statistics(ranks) == doctest::Approx(statistics(1)));
  }
  int decided = 0;  // by the statistics alone
  for (const TransferCase& way : kTransferCases)
    for (int epochs = 2; epochs <= 12; ++epochs) {
      const Config config = way_config(way, epochs, 16);
      const AutoSchedule small = choose_schedule(config, cube(way.axes), RunSize{64, 16, 1});
      if (small.config.method.name != MethodName::baseline) continue;
      if (choose_schedule(config, cube(way.axes)).config.method.name == MethodName::baseline) continue;
      ++decided;
      CHECK(small.training_cost == small.baseline_training_cost);
      REQUIRE(small.reasons.size() == 2);
      CHECK(small.reasons[0].find("for the recalibration of batch norms, and the baseline ") != std::string::npos);
    }
  CHECK(decided > 0);
}

TEST_CASE("auto: a network that knows no resolution is transferred whole, another one of its cost goes behind a stem") {
  const auto way_with = [](const std::string& middle, TransferEpoch transfer) {
    Config config =
        parse_config(automatic("layers = [{ type = \"conv\", filters = 4, kernel = 3, padding = \"same\" }, " + middle +
                               ", { type = \"dense\", units = 4 }]"),
                     "c.toml", {});
    resolve_axes(config.model.layers, 2);
    Shape plane = kCube;
    plane.axes = 2;
    plane.spatial = {1, 64, 64};
    config.method.transfer = transfer;
    const MethodConfig chosen = choose_schedule(config, plane).config.method;
    return std::pair(chosen.top, chosen.moments);
  };
  using TransferCase = std::pair<TopRule, MomentTransfer>;
  const std::string pool = "{ type = \"global_average_pool\" }",
                    flatten = "{ type = \"average_pool\", window = 8 }, { type = \"flatten\" }";
  CHECK(way_with(pool, TransferEpoch::last) == TransferCase{TopRule::interpolated, MomentTransfer::reset});
  CHECK(way_with(flatten, TransferEpoch::last) == TransferCase{TopRule::stem, MomentTransfer::carry});
  CHECK(way_with(flatten, TransferEpoch::best) ==
        TransferCase{TopRule::stem, MomentTransfer::reset});  // the best epoch's are not kept
}

TEST_CASE("auto: axes are averaged as far as their positions allow") {
  const auto levels_of = [](const Extent& positions) {
    Shape sample = kCube;
    sample.spatial = positions;
    std::vector<Extent> resolutions;
    for (const CoarseLevel& level : coarse_levels(config_on_cubes(automatic(kConvolutions)), sample).usable)
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
  const AutoSchedule chosen = choose_schedule(config_on_cubes(automatic(kConvolutions)), sample);
  CHECK(chosen.config.method.resolutions == std::vector<Extent>{{2, 1, 2}, {1, 1, 1}});
  REQUIRE(chosen.reasons.size() == 4);
  CHECK(chosen.reasons[1].find("odd number of positions") != std::string::npos);
}

TEST_CASE("auto: the chosen configuration, written by hand, is the same plan") {
  const AutoSchedule chosen = choose_schedule(config_on_cubes(automatic(kConvolutions)), kCube);
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
  CHECK(why(config_on_cubes(automatic(kConvolutions)), odd).starts_with("averages of 2 fit no axis of 15x15x15x2"));
  const std::string positions = "layers = [{ type = \"conv\", filters = 2, kernel = 3 }]";
  CHECK(why(config_on_cubes(automatic(positions)), kCube) ==
        "resolution [2,2,2] cannot be used: the network's output there is 6x6x6x2, and labels for 14x14x14x2 are "
        "averaged to 7x7x7x2");
  CHECK(why(config_on_cubes(automatic(kConvolutions, "epochs = 1")), kCube).find("too few") != std::string::npos);
  // Two positions after the pooling, however long the sample: all that costs is the second dense layer.
  const Config dense = config_on_cubes(automatic(
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
