// Leaving a coarse phase when it stops paying: exact in losses and arithmetic that are chosen so.
#include <doctest/doctest.h>

#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/run/records_and_train_state.hpp"

using namespace mrmf;

namespace {

// After 8 GFLOP of coarse training for every epoch; 4 GFLOP of the probe lower the loss by `by`.
ProbeRecord probe(int epoch, double end, double by) { return {epoch, 8.0 * epoch, end + by, end, 4}; }

}  // namespace

TEST_CASE("slope rule: one probe says nothing") {
  CHECK_FALSE(pays_no_more({}));
  CHECK_FALSE(pays_no_more({probe(2, 0.5, 10)}));
}

TEST_CASE("slope rule: the fall per arithmetic decides, not the fall") {
  // Two epochs cost 16 GFLOP, four times the second half of the probe.
  CHECK_FALSE(pays_no_more({probe(2, 1.0, 0), probe(4, 0.5, 0.125)}));  // 1/32 and 1/32
  CHECK(pays_no_more({probe(2, 1.0, 0), probe(4, 0.5, 0.25)}));
  CHECK_FALSE(pays_no_more({probe(2, 1.0, 0), probe(4, 0.25, 0.125)}));
}

TEST_CASE("slope rule: the last two probes count, and losses that rise") {
  CHECK(pays_no_more({probe(2, 8.0, 0), probe(4, 1.0, 0), probe(6, 1.0, 0.125)}));
  CHECK(pays_no_more({probe(2, 1.0, 0), probe(4, 1.5, 0)}));
  CHECK_FALSE(pays_no_more({probe(2, 1.0, 0), probe(4, 1.5, -1)}));  // training at full resolution is worse still
}

TEST_CASE("slope rule: probes are due between epochs, not after the last one, and end the phase") {
  StopSettings settings;
  settings.epochs = 6;
  settings.probe_epochs = 2;
  CHECK(settings.early());
  CHECK_FALSE(settings.ends_by_loss());
  StopRule rule(settings);
  std::vector<int> due;
  for (int epoch = 1; epoch <= 6; ++epoch) {
    if (rule.probe_due()) due.push_back(epoch);
    CHECK(rule.update(1, 1) == (epoch == 6 ? StopReason::epochs : StopReason::none));
  }
  CHECK(due == std::vector<int>{2, 4});

  StopRule other(settings);
  const auto epoch = [&](double end, double by) {
    if (other.probe_due()) other.add_probe(probe(other.epochs() + 1, end, by));
    return other.update(1, 1);
  };
  CHECK(epoch(0, 0) == StopReason::none);
  CHECK(epoch(1.0, 10) == StopReason::none);
  CHECK(epoch(0, 0) == StopReason::none);  // no probe
  CHECK(epoch(0.5, 0.25) == StopReason::slope);
}

TEST_CASE("slope rule: a saved phase remembers its probes") {
  Phase phase;
  phase.stop.probe_epochs = 2;
  TrainState state(phase);
  state.stop.add_probe({2, 1.0 / 3, 0.1, 0.7, 1e-9});
  state.stop.update(1, 1);
  const TrainState back = train_state_from_json(to_json(state), phase, "test");
  CHECK(back.stop.state() == state.stop.state());
  CHECK(back.stop.state().probes.size() == 1);
}
