// The rungs of a tuning and how well they agree. What it trains: tests/cli/test_tune.py.
#include <doctest/doctest.h>

#include <cmath>

#include "src/method/auto_schedule_and_tune.hpp"

using namespace mrmf;

namespace {

Config config_with(const std::string& layers) {
  Config config = parse_config(
      "[data]\nfiles = [\"a.h5\"]\ntrain = { samples = \"x\", labels = \"y\" }\n"
      "validation = { samples = \"x\", labels = \"y\" }\n[model]\nlayers = [" +
          layers + "]\n[training]\nepochs = 9\n",
      "c.toml", {});
  resolve_axes(config.model.layers, 1);
  return config;
}

Trial trial(std::vector<double> losses) { return {.losses = std::move(losses)}; }

}  // namespace

TEST_CASE("tune: a third climbs from the coarsest resolution to the last, at least two, of many five") {
  const Config config = config_with(
      "{ type = \"conv\", filters = 8, kernel = 3, padding = \"same\" }, { type = \"flatten\" }, "
      "{ type = \"dense\", units = 2 }");
  const Shape series{.n = 0, .spatial = {1, 1, 64}, .channels = 2, .axes = 1};
  const std::vector<Rung> rungs = make_rungs(config, series, 24);
  REQUIRE(rungs.size() == 3);
  CHECK(rungs[0].resolution == Extent{1, 1, 4});
  CHECK(rungs[0].trials == 24);
  CHECK(rungs[0].cost == doctest::Approx(9.0 / 4).epsilon(0.01));
  CHECK(rungs[1].resolution == Extent{1, 1, 2});
  CHECK(rungs[1].trials == 8);
  CHECK(rungs[2].resolution == Extent{1, 1, 1});
  CHECK(rungs[2].trials == 5);
  CHECK(rungs[2].cost == 9);
  const auto trials = [&](int first) {
    const std::vector<Rung> all = make_rungs(config, series, first);
    return std::vector{all[0].trials, all[1].trials, all[2].trials};
  };
  CHECK(trials(100) == std::vector{100, 34, 12});
  CHECK(trials(20) == std::vector{20, 7, 5});
  CHECK(trials(19) == std::vector{19, 7, 3});
  CHECK(trials(5) == std::vector{5, 2, 2});
  for (const int few : {1, 4}) {  // 4 and 2 coarse trials cost what 2 at full resolution do
    const std::vector<Rung> all = make_rungs(config, series, few);
    REQUIRE(all.size() == 1);
    CHECK(all[0].resolution == Extent{1, 1, 1});
    CHECK(all[0].trials == few);
    CHECK(all[0].cost == 9);
  }
}

TEST_CASE("tune: where no coarser resolution serves, fewer epochs do") {
  const Config config = config_with(
      "{ type = \"conv\", filters = 8, kernel = 3 }, { type = \"flatten\" }, "
      "{ type = \"dense\", units = 2 }");
  const std::vector<Rung> rungs = make_rungs(config, {.n = 0, .spatial = {1, 1, 63}, .channels = 2, .axes = 1}, 6);
  REQUIRE(rungs.size() == 2);
  CHECK(rungs[0].resolution == rungs[1].resolution);
  CHECK(rungs[0].epochs == 3);
  CHECK(rungs[1].epochs == 9);
}

TEST_CASE("tune: rank agreement is Spearman's, over the trials that reached both rungs") {
  std::vector<Trial> trials{trial({1, 10}), trial({2, 20}), trial({3, 30}),
                            trial({4, 40}), trial({5, 50}), trial({0.5})};
  CHECK(rank_agreement(trials, 0, 1) == doctest::Approx(1));
  trials[0].losses[1] = 60;  // 1 2 3 4 5 against 5 1 2 3 4
  CHECK(rank_agreement(trials, 0, 1) == doctest::Approx(0));
  trials[1].losses[1] = NAN;  // diverged: the worst; 1 2 3 4 5 against 4 5 1 2 3
  CHECK(rank_agreement(trials, 0, 1) == doctest::Approx(-0.5));
  for (Trial& t : trials) t.losses.back() = 7;
  CHECK(std::isnan(rank_agreement(trials, 0, 1)));  // no order
}

TEST_CASE("tune: four trials agree by chance, and nothing is said") {
  const std::vector<Trial> trials{trial({1, 10}), trial({2, 20}), trial({3, 30}), trial({4, 40}), trial({0.5})};
  CHECK(std::isnan(rank_agreement(trials, 0, 1)));
}

TEST_CASE("tune: the winner's batch is shared out over the ranks") {
  const Config config = config_with("{ type = \"flatten\" }, { type = \"dense\", units = 2 }");
  const Config own = tuned(config, {.learning_rate = 0.5, .batch = 64, .rule = RateRule::linear}, 4);
  CHECK(own.training.batch == 16);
  CHECK(own.training.optimizer.learning_rate == 0.5);
  CHECK(own.training.optimizer.rule == RateRule::linear);
}
