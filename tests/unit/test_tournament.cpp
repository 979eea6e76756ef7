// Tournaments: who meets whom, whose model survives, which rows a trainer has, and where all continue from.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/tournament/tournament.hpp"

using namespace mrmf;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

Score score(std::vector<double> groups) {
  const double sum = std::accumulate(groups.begin(), groups.end(), 0.0);
  return {sum / static_cast<double>(groups.size()), std::move(groups)};
}

}  // namespace

TEST_CASE("tournament: partners have each other, one of an odd number is alone, and rounds differ") {
  for (const int trainers : {1, 2, 3, 7, 64}) {
    std::set<std::vector<int>> seen;
    for (int round = 0; round < 20; ++round) {
      const std::vector<int> partner = partners(trainers, 5, round);
      int alone = 0;
      for (int t = 0; t < trainers; ++t) {
        CHECK(partner[static_cast<std::size_t>(partner[static_cast<std::size_t>(t)])] == t);
        alone += partner[static_cast<std::size_t>(t)] == t ? 1 : 0;
      }
      CHECK(alone == trainers % 2);
      CHECK(partner == partners(trainers, 5, round));
      seen.insert(partner);
    }
    if (trainers > 2) CHECK(seen.size() > 1);
  }
  CHECK(partners(64, 5, 0) != partners(64, 6, 0));
}

TEST_CASE("tournament: a better visitor takes the place, a worse one and a tie do not") {
  CHECK(decide(score({3, 3.1, 2.9}), score({1, 1.1, 0.9})).replaced);
  CHECK_FALSE(decide(score({1, 1.1, 0.9}), score({3, 3.1, 2.9})).replaced);
  CHECK_FALSE(decide(score({1, 2, 3}), score({1, 2, 3})).replaced);
  CHECK_FALSE(decide(score({1}), score({1})).replaced);
  CHECK(decide(score({1}), score({0.5})).replaced);  // one group has no standard error
}

TEST_CASE("tournament: a difference within its standard error keeps the trainer's own") {
  // Differences 1, -0.9, 1, -0.9: mean 0.05, standard error 1.097/2 = 0.548.
  const Decision close = decide(score({2, 2, 2, 2}), score({1, 2.9, 1, 2.9}));
  CHECK_FALSE(close.replaced);
  CHECK(close.error == doctest::Approx(0.5485).epsilon(1e-3));
  // The groups themselves differ widely, but the visitor is better in each of them alike.
  CHECK(decide(score({10, 200, 3000}), score({9, 199, 2999})).replaced);
}

TEST_CASE("tournament: a score that is not finite loses, in both directions") {
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    const Score broken{bad, {bad, bad}};
    CHECK_FALSE(decide(score({5, 6}), broken).replaced);
    CHECK(decide(broken, score({5, 6})).replaced);
    CHECK_FALSE(decide(broken, broken).replaced);
  }
}

TEST_CASE("tournament: truncation feeds the worst from the best few in turn") {
  const auto of = [](std::vector<double> values) {
    std::vector<RankedScore> scores;
    for (const double value : values) scores.push_back({value, 0, true});
    return scores;
  };
  CHECK(truncation_sources(of({0.4, 0.1, 0.3, 0.2}), 1) == std::vector<int>{1, 1, 1, 1});
  CHECK(truncation_sources(of({0.4, 0.1, 0.3, 0.2}), 2) == std::vector<int>{3, 1, 1, 3});  // places 2 and 3
  CHECK(truncation_sources(of({0.2, 0.2, 0.2}), 1) == std::vector<int>{0, 1, 2});          // ties stay
  CHECK(truncation_sources(of({kNaN, 0.5, kInfinity}), 1) == std::vector<int>{1, 1, 1});
  CHECK(truncation_sources(of({kNaN, kNaN}), 1) == std::vector<int>{0, 1});
  std::vector<RankedScore> gone = of({0.4, 0.1, 0.3});
  gone[1].plays = false;
  CHECK(truncation_sources(gone, 1) == std::vector<int>{2, 1, 2});
  std::vector<RankedScore> unsure = of({0.4, 0.1});
  unsure[0].error = unsure[1].error = 0.25;  // of the difference: 0.354
  CHECK(truncation_sources(unsure, 1) == std::vector<int>{0, 1});
}

TEST_CASE("tournament: mutations go up and down, and are the same each time") {
  std::set<double> seen;
  for (int round = 0; round < 30; ++round) {
    seen.insert(mutation(1, round, 2, 0));
    CHECK(mutation(1, round, 2, 0) == mutation(1, round, 2, 0));
  }
  CHECK(seen == std::set<double>{0.8, 1.2});
}

TEST_CASE("tournament: ranks as teams of trainers") {
  TournamentConfig four{.trainers = 4};
  CHECK(make_trainer_teams(four, 8).size == std::vector<int>{2, 2, 2, 2});
  CHECK(make_trainer_teams(four, 8).of(5) == 2);
  CHECK_THROWS_AS(make_trainer_teams(four, 3), ConfigError);
  CHECK_THROWS_AS(make_trainer_teams(four, 6), ConfigError);
  const TournamentConfig uneven{.trainers = 3, .share = {2, 1, 1}};
  const TrainerTeams teams = make_trainer_teams(uneven, 8);
  CHECK(teams.size == std::vector<int>{4, 2, 2});
  CHECK(teams.first == std::vector<int>{0, 4, 6});
  CHECK_THROWS_AS(make_trainer_teams(uneven, 6), ConfigError);
}

TEST_CASE("rows of parts: each row is in one part, on one side, whatever the order") {
  std::vector<Index> rows(41);
  std::iota(rows.begin(), rows.end(), Index{100});
  std::multiset<Index> seen;
  for (int part = 0; part < 4; ++part)
    for (const bool held : {false, true}) {
      const std::vector<Index> own = rows_of_piece({4, part, 0.3, held, 7}, rows);
      CHECK(std::ranges::is_sorted(own));
      CHECK(std::ssize(own) == (held ? 3 : (part == 0 ? 8 : 7)));
      seen.insert(own.begin(), own.end());
    }
  CHECK(std::ranges::equal(seen, rows));
  CHECK(rows_of_piece({1, 0, 0, false, 7}, rows) == rows);
  CHECK(rows_of_piece({4, 1, 0.3, true, 8}, rows) != rows_of_piece({4, 1, 0.3, true, 7}, rows));
  CHECK(rows_of_piece({1, 0, 0.01, true, 1}, rows).size() == 1);  // either side has a row
  CHECK(rows_of_piece({1, 0, 0.9, false, 1}, {4, 5}).size() == 1);
  CHECK(rows_of_piece({1, 0, 0.5, true, 1}, {4}).empty());
  CHECK(rows_of_piece({3, 2, 0, false, 1}, {4, 5}).empty());
}

TEST_CASE("tournament: all continue from the last round that all have") {
  const auto at = [](int last, int before, bool done = false) {
    return SavedRounds{last < 0 ? std::nullopt : std::optional(last), before < 0 ? std::nullopt : std::optional(before),
                       done};
  };
  CHECK(common_round({at(3, 1), at(3, 2)}) == 3);
  CHECK(common_round({at(3, 1), at(1, 0)}) == 1);         // a kill while the second saved
  CHECK(common_round({at(-1, 2), at(4, 2)}) == 2);        // ... or had just renamed its last one
  CHECK(common_round({at(2, -1, true), at(5, 3)}) == 5);  // ended early, and has no later round
  CHECK(common_round({at(3, -1), at(-1, -1)}) == 0);
  CHECK(common_round({at(-1, -1), at(-1, -1)}) == 0);
  SavedRounds gone = at(2, 1);
  gone.dropped = 4;  // in round 4: the others need not wait for it from there on
  CHECK(common_round({at(5, 4), gone}) == 5);
  CHECK(common_round({at(3, 2), gone}) == 2);
}

TEST_CASE("tournament: records come back as they were") {
  TournamentRecord record{
      .round = 3, .trainer = 1, .steps = 40, .partner = 2, .own = 0.5, .other = 0.25, .error = 0.01};
  record.replaced = true, record.parent = 2, record.learning_rate = 1e-3, record.note = "a \"note\"";
  CHECK(tournament_record_from_json(to_json(record), "here") == record);
  record.own = kNaN;
  CHECK(to_json(record).find("\"own\":null") != std::string::npos);
  CHECK(std::isnan(tournament_record_from_json(to_json(record), "here").own));
  CHECK_THROWS_AS(tournament_record_from_json("{\"round\": 1}", "here"), DataError);
}
