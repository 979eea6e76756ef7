// The stop rule of paper section 3.2, with exact counts: nothing here has a tolerance.
#include <doctest/doctest.h>

#include <limits>

#include "src/plan/learning_rate_and_stop_rule.hpp"

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

TEST_CASE("stop rule: an epoch without anything to score reaches no target and counts towards no patience") {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  StopSettings settings;
  settings.epochs = 9;
  settings.target = 0.5;
  settings.early_stopping.patience = 2;
  StopRule rule(settings);
  CHECK(rule.update(1, 0.8) == StopReason::none);
  CHECK(rule.update(1, 0.9) == StopReason::none);  // unimproved 1
  for (int epoch = 0; epoch < 4; ++epoch) CHECK(rule.update(1, none) == StopReason::none);
  CHECK(rule.state().unimproved == 1);
  CHECK(rule.update(1, 0.9) == StopReason::early_stopping);
  settings.monitor = Monitor::metric;
  settings.metric_target = MetricTarget{Metric::r2, 0.1};
  settings.early_stopping.patience = 1;
  StopRule by_metric(settings);
  for (int epoch = 0; epoch < 8; ++epoch) CHECK(by_metric.update(1, 0.9, none) == StopReason::none);
  CHECK(by_metric.update(1, none, none) == StopReason::epochs);
  BestEpoch best;
  CHECK(!best.update(1, monitored(Monitor::loss, none, {})));
  CHECK(!best.update(2, monitored(Monitor::metric, 1, none)));
  CHECK(best.epoch == 0);
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

namespace {

StopSettings early(int patience, double least_change = 0, Monitor monitor = Monitor::loss) {
  StopSettings settings;
  settings.early_stopping = {patience, least_change};
  settings.monitor = monitor;
  return settings;
}

}  // namespace

TEST_CASE("stop rule: early stopping counts epochs since the best validation loss") {
  StopRule rule(early(2));
  CHECK(rule.update(9.0, 1.0) == StopReason::none);
  CHECK(rule.update(9.0, 0.5) == StopReason::none);
  CHECK(rule.update(9.0, 0.5) == StopReason::none);  // equal is not better: 1
  CHECK(rule.update(9.0, 0.4) == StopReason::none);  // better: 0
  CHECK(rule.update(9.0, 0.6) == StopReason::none);  // 1
  CHECK(rule.update(9.0, 0.5) == StopReason::early_stopping);
  CHECK(rule.epochs() == 6);
}

TEST_CASE("stop rule: a change below the least one is no improvement, unless such changes add up") {
  StopRule rule(early(2, 0.25));
  CHECK(rule.update(9.0, 1.0) == StopReason::none);
  CHECK(rule.update(9.0, 0.8) == StopReason::none);  // not below 0.75: 1
  CHECK(rule.update(9.0, 0.7) == StopReason::none);  // below it: 0
  CHECK(rule.update(9.0, 0.6) == StopReason::none);  // not below 0.525: 1
  CHECK(rule.update(9.0, 0.55) == StopReason::early_stopping);
}

TEST_CASE("stop rule: early stopping by a metric, which rises, and which may be missing or NaN") {
  StopRule rule(early(2, 0, Monitor::metric));
  CHECK(rule.update(9.0, 1.0, 0.5) == StopReason::none);
  CHECK(rule.update(9.0, 0.9, 0.4) == StopReason::none);  // the loss fell, the metric did not rise: 1
  CHECK(rule.update(9.0, 2.0, 0.6) == StopReason::none);  // it rose: 0
  for (int epoch = 0; epoch < 5; ++epoch) {               // nothing was scored: nothing is known
    CHECK(rule.update(9.0, 0.1, std::numeric_limits<double>::quiet_NaN()) == StopReason::none);
    CHECK(rule.update(9.0, 0.1) == StopReason::none);
  }
  CHECK(rule.update(9.0, 0.1, 0.6) == StopReason::none);  // no better: 1
  CHECK(rule.update(9.0, 0.1, 0.5) == StopReason::early_stopping);
}

TEST_CASE("stop rule: it continues from its memory, and without patience it never stops early") {
  StopRule rule(early(3)), later(early(3)), patient(early(0));
  for (const double loss : {1.0, 2.0, 3.0}) CHECK(rule.update(9.0, loss) == StopReason::none);
  later.load_state(rule.state());
  CHECK(later.update(9.0, 4.0) == StopReason::early_stopping);
  for (int i = 0; i < 50; ++i) CHECK(patient.update(9.0, 1.0 + i) == StopReason::none);
}

TEST_CASE("best epoch: the first of the best, by loss or by metric") {
  BestEpoch best;
  CHECK_FALSE(best.update(1, std::numeric_limits<double>::quiet_NaN()));
  CHECK(best.epoch == 0);
  CHECK(best.update(2, monitored(Monitor::loss, 0.5, {})));
  CHECK_FALSE(best.update(3, monitored(Monitor::loss, 0.5, {})));
  CHECK(best.update(4, monitored(Monitor::loss, 0.25, {})));
  CHECK(best == BestEpoch{4, 0.25});
  BestEpoch by_metric;
  CHECK(by_metric.update(1, monitored(Monitor::metric, 0.1, 0.5)));
  CHECK_FALSE(by_metric.update(2, monitored(Monitor::metric, 0.0, 0.25)));
  CHECK(by_metric.update(3, monitored(Monitor::metric, 9.0, 0.75)));
  CHECK_FALSE(by_metric.update(4, monitored(Monitor::metric, 0.0, {})));
}
