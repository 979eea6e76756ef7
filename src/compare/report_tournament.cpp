// What `mrmf report` shows of tournaments: whose model descends from whose, and how scores went.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "src/compare/chart.hpp"
#include "src/compare/report_page.hpp"
#include "src/run/tournament_record.hpp"

namespace mrmf {
namespace {

struct Family {
  int trainers = 0, rounds = 0, replaced = 0;
  std::vector<TournamentRecord> meetings, ends;
};

Family family_of(const std::vector<TournamentRecord>& records) {
  Family family;
  for (const TournamentRecord& record : records) {
    family.trainers = std::max(family.trainers, record.trainer + 1);
    family.rounds = std::max(family.rounds, record.round);
    family.replaced += record.replaced ? 1 : 0;
    (record.round > 0 ? family.meetings : family.ends).push_back(record);
  }
  return family;
}

// A line from each model to what it was a round before, in the colour of the trainer that began it.
LineChart tree(const Family& family) {
  LineChart chart{.title = "Whose model descends from whose", .x = "round", .y = "trainer", .lines = {}};
  chart.linear = true;
  std::vector<int> founder(static_cast<std::size_t>(family.trainers));
  std::iota(founder.begin(), founder.end(), 0);
  for (int round = 1; round <= family.rounds; ++round) {
    std::vector<int> now = founder;
    for (const TournamentRecord& r : family.meetings) {
      if (r.round != round || r.status != "plays") continue;
      const int first = founder[static_cast<std::size_t>(r.parent)];
      now[static_cast<std::size_t>(r.trainer)] = first;
      chart.lines.push_back({.points = {{round - 1, r.parent}, {round, r.trainer}},
                             .colour = chart_colour(static_cast<std::size_t>(first)),
                             .minor = false,
                             .title = to_text(r)});
    }
    founder = now;
  }
  for (const TournamentRecord& r : family.ends)
    if (r.best)
      chart.marks.push_back({static_cast<double>(family.rounds), static_cast<double>(r.trainer),
                             chart_colour(static_cast<std::size_t>(founder[static_cast<std::size_t>(r.trainer)])),
                             to_text(r)});
  return chart;
}

LineChart scores(const Family& family) {
  LineChart chart{.title = "Scores on each trainer's own held-out rows", .x = "round", .y = "score", .lines = {}};
  std::map<int, ChartLine> lines;
  for (const TournamentRecord& r : family.meetings) {
    ChartLine& line = lines[r.trainer];
    line.colour = chart_colour(static_cast<std::size_t>(r.trainer));
    line.title = fmt::format("trainer {}", r.trainer);
    line.points.emplace_back(r.round, r.replaced ? r.other : r.own);
  }
  for (auto& [trainer, line] : lines) chart.lines.push_back(std::move(line));
  return chart;
}

std::string ends_table(const Family& family) {
  std::vector<std::vector<std::string>> rows;
  for (const TournamentRecord& r : family.ends)
    rows.push_back(
        {fmt::format("trainer {}", r.trainer), r.status, score_text(r.own), r.best ? "the run's model" : ""});
  return html_table({"trainer", "", "score on the validation data", ""}, rows);
}

}  // namespace

std::string tournament_section(const std::vector<RunSet>& sets) {
  std::string out;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) {
      const Family family = family_of(read_tournament(run.folder));
      if (family.trainers == 0) continue;
      out += "<h3>" + html(run.folder) + "</h3>\n";
      out += fmt::format(
          "<p>{} trainers, each with its part of the training rows, met {} times; {} times one took another's model, "
          "which was better on rows that it had held out.</p>\n",
          family.trainers, family.rounds, family.replaced);
      out += "<div class=\"charts\">" + svg(tree(family)) + svg(scores(family)) + "</div>\n" + ends_table(family);
    }
  return out;
}

}  // namespace mrmf
