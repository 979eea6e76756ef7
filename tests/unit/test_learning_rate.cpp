// Learning-rate rules against values computed by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "src/plan/learning_rate_and_stop_rule.hpp"

using namespace mrmf;

namespace {

OptimizerSettings rule(RateRule name, double rate = 0.8) {
  OptimizerSettings settings;
  settings.rule = name;
  settings.learning_rate = rate;
  return settings;
}

}  // namespace

TEST_CASE("learning rate: constant") {
  const LearningRate rate(rule(RateRule::constant), 10);
  CHECK(rate.at(0, 0, 5) == 0.8);
  CHECK(rate.at(9, 4, 5) == 0.8);
}

TEST_CASE("learning rate: cosine falls from the rate to nothing over the epochs") {
  const LearningRate rate(rule(RateRule::cosine), 4);
  CHECK(rate.at(0, 0, 10) == doctest::Approx(0.8));
  CHECK(rate.at(2, 0, 10) == doctest::Approx(0.4));  // half way: cos(pi/2) = 0
  CHECK(rate.at(1, 5, 10) == doctest::Approx(0.4 * (1 + std::cos(3.14159265358979 * 1.5 / 4))));
  CHECK(rate.at(3, 9, 10) < 0.002);
  CHECK(rate.at(7, 0, 10) == doctest::Approx(0.0));  // past the end it stays there
}

TEST_CASE("learning rate: linear") {
  const LearningRate rate(rule(RateRule::linear), 4);
  CHECK(rate.at(1, 0, 10) == doctest::Approx(0.6));
  CHECK(rate.at(3, 5, 10) == doctest::Approx(0.1));
}

TEST_CASE("learning rate: a part of one curve over the whole run") {
  const LearningRate first(rule(RateRule::linear), 6, {0.0, 0.75});
  const LearningRate last(rule(RateRule::linear), 2, {0.75, 1.0});
  CHECK(first.at(3, 0, 1) == doctest::Approx(0.8 * (1 - 0.375)));
  CHECK(first.at(6, 0, 1) == doctest::Approx(last.at(0, 0, 1)));  // no jump where the parts meet
  CHECK(last.at(2, 0, 1) == doctest::Approx(0.0));
}

TEST_CASE("learning rate: warm-up as the paper's code does it, rate * (epoch + 1) / warmup") {
  OptimizerSettings settings = rule(RateRule::constant);
  settings.warmup = 5;
  const LearningRate rate(settings, 10);
  CHECK(rate.at(0, 3, 4) == doctest::Approx(0.16));
  CHECK(rate.at(3, 0, 4) == doctest::Approx(0.64));
  CHECK(rate.at(4, 0, 4) == doctest::Approx(0.8));
  CHECK(rate.at(5, 0, 4) == doctest::Approx(0.8));
}

TEST_CASE("learning rate: piecewise multiplies at each boundary") {
  OptimizerSettings settings = rule(RateRule::piecewise);
  settings.boundaries = {2, 5};
  settings.factor = 0.1;
  const LearningRate rate(settings, 10);
  CHECK(rate.at(1, 9, 10) == doctest::Approx(0.8));
  CHECK(rate.at(2, 0, 10) == doctest::Approx(0.08));
  CHECK(rate.at(5, 0, 10) == doctest::Approx(0.008));
}

TEST_CASE("learning rate: reduce on plateau counts bad epochs beyond patience, then cools down") {
  OptimizerSettings settings = rule(RateRule::plateau);
  settings.factor = 0.5;
  settings.patience = 1;
  settings.cooldown = 1;
  LearningRate rate(settings, 100);
  const auto now = [&] { return rate.at(0, 0, 1); };
  rate.epoch_done(1.0);  // best
  rate.epoch_done(1.0);  // bad 1
  CHECK(now() == doctest::Approx(0.8));
  rate.epoch_done(1.0);  // bad 2 > patience: halve
  CHECK(now() == doctest::Approx(0.4));
  rate.epoch_done(1.0);  // cooling down: does not count
  rate.epoch_done(1.0);  // bad 1
  CHECK(now() == doctest::Approx(0.4));
  rate.epoch_done(1.0);  // bad 2: halve
  CHECK(now() == doctest::Approx(0.2));
  rate.epoch_done(0.99995);  // better by less than the relative threshold of 1e-4: still bad (in cool-down)
  rate.epoch_done(0.5);      // a new best
  rate.epoch_done(0.6);      // bad 1
  for (int epoch = 0; epoch < 5; ++epoch) rate.epoch_done(std::nan(""));  // nothing to score: neither good nor bad
  CHECK(now() == doctest::Approx(0.2));
  rate.epoch_done(0.6);  // bad 2: halve
  CHECK(now() == doctest::Approx(0.1));
}
