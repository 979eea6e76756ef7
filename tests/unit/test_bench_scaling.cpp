// What `mrmf bench scaling` works out; what it measures is run by tests/cli/test_teams.py.
#include <doctest/doctest.h>

#include <algorithm>

#include "src/bench/bench.hpp"
#include "src/plan/plan.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;

TEST_CASE("bench scaling: teams are the ranks asked for, or powers of two and all") {
  CHECK(scaling_teams({}, 1) == std::vector<int>{1});
  CHECK(scaling_teams({}, 6) == std::vector<int>{1, 2, 4, 6});
  CHECK(scaling_teams({}, 8) == std::vector<int>{1, 2, 4, 8});
  CHECK(scaling_teams({4, 1, 4, 3}, 5) == std::vector<int>{1, 3, 4});
  const std::string text = message<ConfigError>([] { scaling_teams({1, 2, 16}, 4); });
  CHECK(text == "--ranks 16: this job has 4 ranks; start it with mpirun -n 16, or measure fewer");
  CHECK_THROWS_AS(scaling_teams({0}, 4), ConfigError);
}

TEST_CASE("bench scaling: strong keeps the mini-batch, weak the batch per rank") {
  ScalingSettings settings;
  CHECK(scaling_batch(settings, 12, 1, 4) == 48);
  CHECK(scaling_batch(settings, 12, 3, 4) == 16);
  CHECK(scaling_batch(settings, 12, 4, 4) == 12);
  const std::string text = message<ConfigError>([&] { scaling_batch(settings, 5, 3, 4); });
  CHECK(text.find("batch 5 on 4 ranks = 20, and 3 ranks cannot share that out evenly") != std::string::npos);
  settings.weak = true;
  CHECK(scaling_batch(settings, 5, 3, 4) == 5);
}

namespace {

Phase phase_of(int batch, const Extent& grid = {1, 1, 1}) {
  Phase phase;
  phase.batch = batch;
  phase.grid = grid;
  return phase;
}

std::vector<std::vector<int>> numbers(const std::vector<ScalingTeam>& teams) {
  std::vector<std::vector<int>> all;
  for (const ScalingTeam& team : teams) all.push_back({team.ranks, team.grid.ranks(), team.batch});
  return all;
}

}  // namespace

TEST_CASE("bench scaling: a grid for all teams makes groups, whose batches follow") {
  ScalingSettings settings;
  settings.grids = {{{2, 1, 1}}};
  using Numbers = std::vector<std::vector<int>>;
  CHECK(numbers(scaling_plan(settings, phase_of(3), 9)) == Numbers{{2, 2, 12}, {4, 2, 6}, {8, 2, 3}});
  settings.weak = true;
  CHECK(numbers(scaling_plan(settings, phase_of(3), 9)) == Numbers{{2, 2, 3}, {4, 2, 3}, {8, 2, 3}});
  settings = {};  // run.grid's
  CHECK(numbers(scaling_plan(settings, phase_of(3, {1, 2, 1}), 4)) == Numbers{{2, 2, 6}, {4, 2, 3}});
  settings.ranks = {2, 3};
  CHECK_THROWS_WITH_AS(scaling_plan(settings, phase_of(3, {1, 2, 1}), 4), doctest::Contains("give a multiple of 2"),
                       ConfigError);
  settings.grids = {{{8, 1, 1}}};
  settings.ranks = {};
  CHECK_THROWS_WITH_AS(scaling_plan(settings, phase_of(3), 4), doctest::Contains("mpirun -n 8"), ConfigError);
}

TEST_CASE("bench scaling: strong scaling may cut each team's samples another way") {
  ScalingSettings settings;
  settings.ranks = {1, 2, 4};
  settings.grids = {{{1, 1, 1}}, {{2, 1, 1}}, {{2, 2, 1}}};
  using Numbers = std::vector<std::vector<int>>;
  CHECK(numbers(scaling_plan(settings, phase_of(3), 4)) == Numbers{{1, 1, 3}, {2, 2, 3}, {4, 4, 3}});
  settings.mini_batch = 8;
  CHECK(numbers(scaling_plan(settings, phase_of(3), 4)) == Numbers{{1, 1, 8}, {2, 2, 8}, {4, 4, 8}});
  settings.weak = true;
  CHECK_THROWS_WITH_AS(scaling_plan(settings, phase_of(3), 4), doctest::Contains("keeps the ranks of a sample"),
                       ConfigError);
  settings.weak = false;
  settings.ranks = {1, 4};
  CHECK_THROWS_WITH_AS(scaling_plan(settings, phase_of(3), 4), doctest::Contains("3 grids, and there are 2 teams"),
                       ConfigError);
}

TEST_CASE("bench scaling: a grid in words") {
  CHECK(parse_grid("2") == Grid{{1, 1, 2}});
  CHECK(parse_grid("2,1,4") == Grid{{2, 1, 4}});
  for (const char* wrong : {"", "0", "2,", "2x1", "1,2,3,4", "-1", "two"})
    CHECK_THROWS_AS(parse_grid(wrong), ConfigError);
}

TEST_CASE("bench scaling: all epochs are measured, whatever would stop a run") {
  Config config;
  config.training.early_stopping.patience = 1;
  config.training.batch = 6;
  const Config alone = last_step_alone(config, 4);
  CHECK_FALSE(make_plan(alone).last.stop.early());
  CHECK(make_plan(alone).last.stop.epochs == 4);
  CHECK(make_plan(alone).last.batch == 6);
}

TEST_CASE("bench scaling: speedup, efficiency and the ideal line are against the smallest team") {
  std::vector<ScalingPoint> points{{.ranks = 2, .epoch = 8}, {.ranks = 4, .epoch = 5}, {.ranks = 8, .epoch = 2}};
  compare_with_first(points);
  CHECK(points[0].speedup == 1);
  CHECK(points[0].efficiency == 1);
  CHECK(points[0].ideal == 8);
  CHECK(points[1].ideal == 4);
  CHECK(points[1].speedup == 1.6);
  CHECK(points[1].efficiency == 0.8);
  CHECK(points[2].efficiency == 1);
  const std::string csv = scaling_csv(points), table = scaling_table(points);
  CHECK(csv.starts_with("ranks,batch_per_rank,"));
  CHECK(csv.find("efficiency,grid\n") != std::string::npos);
  CHECK(csv.find("\n4,1,0.000000,5.000000,") != std::string::npos);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  CHECK(table.find("80.0 %") != std::string::npos);
}
