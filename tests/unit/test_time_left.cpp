// The time that a run still takes, against numbers worked out by hand.
#include <doctest/doctest.h>

#include "src/run/run_cost.hpp"
#include "src/run/run_log.hpp"

using namespace mrmf;

namespace {

// Coarse, dense, finetune; a full epoch is 8 times the arithmetic of a coarse one.
std::vector<PhaseWork> three_phases() {
  return {
      {.stage = 1, .role = Role::coarse, .resolution = {2, 2, 2}, .batch = 8, .epochs = 10, .early = true, .gflop = 5},
      {.stage = 1, .role = Role::dense, .batch = 8, .epochs = 2, .gflop = 40},
      {.stage = 2, .role = Role::finetune, .batch = 8, .epochs = 6, .gflop = 40}};
}

PhaseHistory history(int stage, Role role, const std::vector<double>& seconds, double gflop, int ranks = 1) {
  PhaseHistory phase{.record = {.stage = stage, .role = role}, .epochs = {}};
  for (const double s : seconds) {
    EpochRecord epoch{.stage = stage, .role = role};
    if (role == Role::coarse) epoch.resolution = {2, 2, 2};
    epoch.epoch = static_cast<int>(phase.epochs.size()) + 1;
    epoch.seconds = s;
    epoch.gflop = gflop;
    epoch.batch = 8;
    epoch.ranks = ranks;
    phase.epochs.push_back(epoch);
  }
  return phase;
}

}  // namespace

TEST_CASE("time left: phases to come cost by their arithmetic what the one under way does") {
  const TimeEstimate estimate(three_phases(), 1);
  // The first epoch, with its building of models, does not count once there are others: 2 s each.
  const auto left =
      estimate.left({history(1, Role::coarse, {9, 2, 2}, 5)}, {.stage = 1, .role = Role::coarse, .epochs = 3});
  REQUIRE(left);
  CHECK(left->phase == doctest::Approx(14));
  CHECK(left->run == doctest::Approx(14 + 16 * (2 + 6)));
  CHECK(left->phase_at_most);
  CHECK(left->run_at_most);
  CHECK(time_left_text(*left) == "phase at most 14 s, run at most 2 min 22 s");
}

TEST_CASE("time left: an epoch of a resolution and batch that were measured takes what it took") {
  const TimeEstimate estimate(three_phases(), 1);
  const std::vector<PhaseHistory> past{history(1, Role::coarse, {2}, 5), history(1, Role::dense, {20}, 40)};
  const auto left = estimate.left(past, {.stage = 1, .role = Role::dense, .epochs = 1.5});
  REQUIRE(left);
  CHECK(left->phase == doctest::Approx(10));
  CHECK(left->run == doctest::Approx(10 + 6 * 20));
  CHECK_FALSE(left->phase_at_most);
  CHECK_FALSE(left->run_at_most);
}

TEST_CASE("time left: before a phase's first epoch ends, its steps or the arithmetic tell") {
  const TimeEstimate estimate(three_phases(), 1);
  CHECK_FALSE(estimate.left({}, {.stage = 1, .role = Role::coarse}).has_value());
  const auto by_steps = estimate.left({}, {.stage = 1, .role = Role::coarse, .epochs = 0.5, .epoch_seconds = 4.0});
  REQUIRE(by_steps);
  CHECK(by_steps->phase == doctest::Approx(9.5 * 4));
  CHECK(by_steps->run == doctest::Approx(9.5 * 4 + 8 * 32));
  const auto by_arithmetic =
      estimate.left({history(1, Role::coarse, {2}, 5)}, {.stage = 1, .role = Role::dense, .epochs = 0});
  REQUIRE(by_arithmetic);
  CHECK(by_arithmetic->phase == doctest::Approx(32));
  CHECK(by_arithmetic->run == doctest::Approx(32 + 6 * 16));
}

TEST_CASE("time left: the last phase ends the run, and a phase that has ended takes no more") {
  const TimeEstimate estimate(three_phases(), 1);
  const auto last =
      estimate.left({history(2, Role::finetune, {3}, 40)}, {.stage = 2, .role = Role::finetune, .epochs = 1});
  REQUIRE(last);
  CHECK(last->last_phase);
  CHECK(time_left_text(*last) == "run 15 s");
  const auto ended =
      estimate.left({history(1, Role::coarse, {2}, 5)}, {.stage = 1, .role = Role::coarse, .epochs = 99});
  REQUIRE(ended);
  CHECK(ended->phase == 0);
  CHECK(time_left_text(*ended) == "run 2 min 08 s");  // no rule of a phase to come ends it early
}

TEST_CASE("time left: two teams train at once, on a part of the ranks each") {
  std::vector<PhaseWork> phases = three_phases();
  phases[1].at_once = true;
  const TimeEstimate estimate(phases, 4);
  const auto left =
      estimate.left({history(1, Role::coarse, {2}, 5, 1)}, {.stage = 1, .role = Role::coarse, .epochs = 1, .ranks = 1});
  REQUIRE(left);
  CHECK(left->phase == doctest::Approx(18));
  CHECK(left->run == doctest::Approx(18 + 6 * 16 / 4.0));  // not the dense model's epochs; then four ranks
}
