// Two teams of ranks: their sizes, and what is refused.
#include <doctest/doctest.h>

#include "src/method/pipeline.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/config_text.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

MethodConfig split(std::vector<int> shares) {
  MethodConfig method;
  method.teams = TeamMode::concurrent;
  method.team_shares = std::move(shares);
  return method;
}

}  // namespace

TEST_CASE("teams: shares are whole ranks, or a proportion of them") {
  CHECK(given_teams(split({20, 12}), 32) == TeamSizes{20, 12});  // the paper's own
  CHECK(given_teams(split({44, 20}), 64) == TeamSizes{44, 20});
  CHECK(given_teams(split({20, 12}), 64) == TeamSizes{40, 24});
  CHECK(given_teams(split({20, 12}), 8) == TeamSizes{5, 3});
  CHECK(given_teams(split({3, 2}), 5) == TeamSizes{3, 2});
  CHECK(given_teams(split({1, 1}), 2) == TeamSizes{1, 1});
  CHECK_FALSE(given_teams(split({}), 2));
}

TEST_CASE("teams: a split that does not fit the ranks, and a single rank, are refused") {
  const auto refused = [](std::vector<int> shares, int ranks) {
    return message<ConfigError>([&] { given_teams(split(std::move(shares)), ranks); });
  };
  CHECK(refused({3, 2}, 4).find("method.team_shares = [3, 2] does not fit 4 ranks; use 5 or a multiple") == 0);
  CHECK(refused({20, 12}, 12).find("use 8 or a multiple") != std::string::npos);
  CHECK(refused({1, 1}, 1).find("needs a rank for each of two teams") != std::string::npos);
  CHECK(refused({}, 1).find("needs a rank for each of two teams") != std::string::npos);
}

TEST_CASE("teams: measured sizes follow the seconds, in whole ranks, at least one each") {
  CHECK(proportional_teams(3, 2, 5) == TeamSizes{3, 2});
  CHECK(proportional_teams(197.61, 91.52, 32) == TeamSizes{22, 10});
  CHECK(proportional_teams(1, 1, 5).ranks() == 5);
  CHECK(proportional_teams(1000, 1, 4) == TeamSizes{3, 1});
  CHECK(proportional_teams(1, 1000, 4) == TeamSizes{1, 3});
}

TEST_CASE("teams: each team must be able to train its model on the samples") {
  Config config;
  config.data.shards = 0;
  Stage stage;
  stage.coarse.role = Role::coarse;
  stage.coarse.batch = 4;
  stage.dense = stage.coarse;
  stage.dense->role = Role::dense;
  const auto refused = [&](TeamSizes teams, Index samples) {
    DatasetShape shape;
    shape.samples = samples;
    return message<ConfigError>([&] { require_trainable(config, {}, stage, teams, shape); });
  };
  CHECK(refused({3, 2}, 41) == "");
  stage.coarse.batch = stage.dense->batch = 1;
  CHECK(refused({5, 2}, 4).find("the dense team of stage 1, 5 of 7 ranks: 4 samples cannot be cut into 5 shards") == 0);
  CHECK(refused({2, 5}, 4).find("the coarse team of stage 1, 5 of 7 ranks: ") == 0);
  stage.coarse.batch = stage.dense->batch = 4;
  CHECK(refused({3, 1}, 11).find("batch = 4 is larger than a rank's shard") != std::string::npos);
  config.data.shards = 6;
  CHECK(refused({3, 4}, 100).find("data.shards = 6 is not a multiple of the 4 ranks") != std::string::npos);
}

TEST_CASE("teams: the configuration refuses what has no two models to train, and half a split") {
  const auto error = [](const std::string& method) {
    return message<ConfigError>([&] { parse_config(kSmallest + ("[method]\n" + method), "c.toml", {}); });
  };
  const std::string mrmf = "name = \"mrmf\"\nresolutions = [[2], [1]]\nteams = \"concurrent\"\n";
  CHECK(error(mrmf) == "");
  CHECK(error("teams = \"concurrent\"\n").find("c.toml:8: method.teams = \"concurrent\" trains a coarse and a dense") ==
        0);
  CHECK(error(mrmf + "top = \"interpolated\"\n").find("c.toml:10: method.teams = ") == 0);
  CHECK(error(mrmf + "join = false\n") == "");
  CHECK(error(mrmf + "join = true\n").find("c.toml:11: method.join = true is no longer there: ") == 0);
  CHECK(error(mrmf + "team_shares = [3]\n").find("c.toml:11: method.team_shares has 1 entries; ") == 0);
  CHECK(error(mrmf + "team_shares = [3, 0]\n") ==
        "c.toml:11: method.team_shares is 0; it must be an integer of at least 1");
}

TEST_CASE("teams: the plan says which models are trained at once") {
  const std::string toml =
      kSmallest + std::string("[method]\nname = \"mrmf\"\nresolutions = [[4], [2], [1]]\nteams = \"concurrent\"\n");
  const Plan plan = make_plan(parse_config(toml, "c.toml", {}));
  CHECK(plan.stages[0].at_once);
  CHECK(plan.stages[1].at_once);
  CHECK(to_text(plan).find(", at once with coarse, ranks in shares to be measured\n") != std::string::npos);
  CHECK(to_json(plan).find("\"at_once\": true") != std::string::npos);
  const Plan given = make_plan(parse_config(toml, "c.toml", {"method.team_shares=[5, 3]"}));
  CHECK(to_text(given).find("ranks 5 : 3 (dense : coarse)\n") != std::string::npos);
  const Plan sequential = make_plan(parse_config(toml, "c.toml", {"method.teams=sequential"}));
  CHECK_FALSE(sequential.stages[0].at_once);
  CHECK(to_json(sequential).find("at_once") == std::string::npos);
}
