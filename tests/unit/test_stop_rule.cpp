// The stop rule of paper section 3.2, with exact counts: nothing here has a tolerance.
#include <doctest/doctest.h>

#include <limits>

#include "src/plan/stop_rule.hpp"

using namespace mrmf;

namespace {

StopSettings plateau(double threshold, int patience, int epochs = 100) {
  StopSettings settings;
  settings.epochs = epochs;
  settings.threshold = threshold;
  settings.patience = patience;
  return settings;
}

}  // namespace

TEST_CASE("stop rule: patience counts consecutive epochs below the threshold") {
  StopRule rule(plateau(0.25, 3));
  CHECK(rule.update(8.0, 0) == StopReason::none);    // no reduction known yet
  CHECK(rule.update(7.0, 0) == StopReason::none);    // fell by 1
  CHECK(rule.update(6.875, 0) == StopReason::none);  // slow 1
  CHECK(rule.update(6.75, 0) == StopReason::none);   // slow 2
  CHECK(rule.update(6.625, 0) == StopReason::plateau);
  CHECK(rule.epochs() == 5);
}

TEST_CASE("stop rule: one good epoch starts the count again") {
  StopRule rule(plateau(0.25, 2));
  rule.update(8.0, 0);
  CHECK(rule.update(7.9, 0) == StopReason::none);
  CHECK(rule.slow_epochs() == 1);
  CHECK(rule.update(7.0, 0) == StopReason::none);
  CHECK(rule.slow_epochs() == 0);
  CHECK(rule.update(6.9, 0) == StopReason::none);
  CHECK(rule.update(6.8, 0) == StopReason::plateau);
}

TEST_CASE("stop rule: a reduction equal to the threshold still counts as progress") {
  StopRule rule(plateau(0.5, 1));
  rule.update(8.0, 0);
  CHECK(rule.update(7.5, 0) == StopReason::none);
  CHECK(rule.update(7.25, 0) == StopReason::plateau);
}

TEST_CASE("stop rule: a rising loss is no reduction") {
  StopRule rule(plateau(0.0, 2));
  rule.update(1.0, 0);
  CHECK(rule.update(2.0, 0) == StopReason::none);
  CHECK(rule.update(3.0, 0) == StopReason::plateau);
}

TEST_CASE("stop rule: the first epoch never stops on the threshold") {
  StopRule rule(plateau(100.0, 1));
  CHECK(rule.update(1.0, 0) == StopReason::none);
  CHECK(rule.update(1.0, 0) == StopReason::plateau);
}

TEST_CASE("stop rule: epochs are the upper bound, and the target wins over them") {
  StopSettings settings;
  settings.epochs = 2;
  StopRule bounded(settings);
  CHECK(bounded.update(1.0, 1.0) == StopReason::none);
  CHECK(bounded.update(0.1, 0.1) == StopReason::epochs);

  settings.target = 0.5;
  StopRule targeted(settings);
  CHECK(targeted.update(1.0, 0.6) == StopReason::none);
  CHECK(targeted.update(0.1, 0.5) == StopReason::target);
}

TEST_CASE("stop rule: a validation loss that is NaN never reaches the target") {
  StopSettings settings;
  settings.epochs = 3;
  settings.target = 0.5;
  StopRule rule(settings);
  CHECK(rule.update(1.0, std::numeric_limits<double>::quiet_NaN()) == StopReason::none);
}
