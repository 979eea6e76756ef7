// The pictures of `mrmf report`: curves of losses and metric, and where the time went.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "src/compare/report.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {
namespace {

using Number = std::function<double(const EpochRecord&)>;

/// What a chart draws over the epochs.
struct Curves {
  std::string name;
  Number of_epoch;
  bool linear = false;  ///< a score that is best at 1
};

/// What the horizontal axis counts.
struct Across {
  std::string name;
  Number of_epoch;
};

// A line for each phase: between two of them the model changes. The last one begins where the cost of the others ends.
void add_lines(const Run& run, const std::string& colour, const Across& cost, const Number& value, LineChart& chart) {
  double sum = 0;
  const EpochRecord* before = nullptr;
  for (const EpochRecord& epoch : run.epochs) {
    if (!before || before->stage != epoch.stage || before->role != epoch.role)
      chart.lines.push_back({.points = {},
                             .colour = colour,
                             .minor = !after_fusion(epoch.role),
                             .title = fmt::format("{}: stage {}, {}", run.folder, epoch.stage, to_string(epoch.role))});
    sum += cost.of_epoch(epoch);
    chart.lines.back().points.emplace_back(sum, value(epoch));
    const auto& best = run.result.best;
    if (best && &epoch - run.epochs.data() == std::ssize(run.epochs) - best->epochs + best->epoch - 1)
      chart.marks.push_back(
          {sum, value(epoch), colour, fmt::format("{}: epoch {}, the best one", run.folder, epoch.epoch)});
    before = &epoch;
  }
}

std::string key_item(const std::string& colour, double opacity, const std::string& words) {
  return fmt::format(
      "<li><span style=\"background: color-mix(in srgb, {} {:.0f}%, transparent); border-color: {}\"></span>{}</li>\n",
      colour, 100 * opacity, colour, html(words));
}

const std::array<std::pair<const char*, double>, 4> kParts{
    {{"computing", 1.0}, {"communication", 0.65}, {"I/O", 0.4}, {"other", 0.12}}};

std::array<double, 4> seconds_of(const StageTime& t) { return {t.compute, t.communication, t.io, t.other}; }

// The paper's colours are red, orange and yellow; here the finetune is blue, which is told apart better.
std::string stage_colour(int stage) {
  constexpr std::array colours{"#3d85c6", "#d1495b", "#e0912b", "#8f6bb0"};
  return colours[stage == 0 ? 0 : 1 + static_cast<std::size_t>(stage - 1) % 3];
}

std::string stage_words(int stage) { return stage == 0 ? "baseline or finetune" : fmt::format("stage {}", stage); }

// The mean over a set's runs, stage by stage. They have one plan, so the same stages.
std::vector<StageTime> mean_times(const RunSet& run_set) {
  std::vector<StageTime> mean = stage_times(run_set.runs.front());
  for (StageTime& t : mean) t = {.stage = t.stage};
  const auto n = static_cast<double>(run_set.runs.size());
  for (const Run& run : run_set.runs) {
    const std::vector<StageTime> own = stage_times(run);
    for (std::size_t i = 0; i < std::min(mean.size(), own.size()); ++i) {
      mean[i].compute += own[i].compute / n, mean[i].communication += own[i].communication / n;
      mean[i].io += own[i].io / n, mean[i].other += own[i].other / n;
    }
  }
  return mean;
}

}  // namespace

std::string curves_section(const std::vector<RunSet>& sets) {
  const std::array<Across, 2> costs{{{"epochs of all models", [](const EpochRecord&) { return 1.0; }},
                                     {"arithmetic (GFLOP)", [](const EpochRecord& e) { return e.gflop; }}}};
  std::vector<Curves> curves{{"validation loss", [](const EpochRecord& e) { return e.validation_loss; }},
                             {"training loss", [](const EpochRecord& e) { return e.train_loss; }}};
  for (const RunSet& run_set : sets)
    if (const auto& metric = run_set.first().metric) {
      curves.push_back({"validation " + to_string(metric->metric),
                        [kind = metric->metric](const EpochRecord& e) {
                          return e.metric && e.metric->metric == kind ? e.metric->value : NAN;
                        },
                        !falls(metric->metric.kind)});
      break;
    }
  curves.push_back({"learning rate", [](const EpochRecord& e) { return e.learning_rate; }});
  std::string charts, key;
  for (const Curves& drawn : curves)
    for (const Across& cost : costs) {
      LineChart chart{.title = drawn.name + " over " + cost.name, .x = cost.name, .y = drawn.name, .lines = {}};
      chart.linear = drawn.linear;
      for (std::size_t g = 0; g < sets.size(); ++g)
        for (const Run& run : sets[g].runs) add_lines(run, chart_colour(g), cost, drawn.of_epoch, chart);
      charts += svg(chart);
    }
  for (std::size_t g = 0; g < sets.size(); ++g) key += key_item(chart_colour(g), 1, set_title(sets[g]));
  std::string apart;
  for (const RunSet& run_set : sets)
    if (const std::string setting = different_losses(sets.front(), run_set); !setting.empty()) apart = setting;
  if (!apart.empty())
    apart = "<p class=\"warning\">The runs differ in " + html(apart) +
            ": their losses are not numbers of one kind, and one curve below another says nothing.</p>\n";
  return apart +
         "<p>Solid lines are the model that a run ends with. Dotted lines are coarse and dense models before a fusion, "
         "on other data; their losses are not the run's. A dot marks the end of a phase, a ring the best epoch, whose "
         "model is used.</p>\n<ul class=\"key\">\n" +
         key + "</ul>\n<div class=\"charts\">\n" + charts + "</div>\n";
}

std::string time_section(const std::vector<RunSet>& sets) {
  BarChart chart{.title = "Seconds of training, stage by stage", .x = "seconds", .bars = {}};
  std::vector<std::vector<std::string>> rows;
  int most = 0;
  for (const RunSet& run_set : sets) {
    const int ranks = run_set.first().ranks;
    const std::string runs = run_set.runs.size() > 1 ? fmt::format(", mean of {} runs", run_set.runs.size()) : "";
    Bar bar{.label = fmt::format("{} ({} rank{}{})", set_title(run_set), ranks, ranks == 1 ? "" : "s", runs),
            .parts = {}};
    for (const StageTime& t : mean_times(run_set)) {
      most = std::max(most, t.stage);
      const std::array<double, 4> parts = seconds_of(t);
      for (std::size_t i = 0; i < parts.size(); ++i)
        bar.parts.push_back({parts[i], stage_colour(t.stage), kParts[i].second,
                             fmt::format("{}, {}: {:.2f} s", stage_words(t.stage), kParts[i].first, parts[i])});
      rows.push_back({set_title(run_set), stage_words(t.stage), fmt::format("{:.2f}", t.seconds())});
      for (const double part : parts) rows.back().push_back(fmt::format("{:.2f}", part));
    }
    chart.bars.push_back(std::move(bar));
  }
  std::string key;
  for (int stage = 1; stage <= most; ++stage) key += key_item(stage_colour(stage), 1, stage_words(stage));
  key += key_item(stage_colour(0), 1, stage_words(0));
  for (const auto& [name, opacity] : kParts) key += key_item("#8a8a8a", opacity, name);
  return "<p>A bar for each method: what each stage took, and in it computing, communication between the ranks, "
         "reading and averaging data (I/O), and the rest, such as building models. Reading the files before training "
         "is not in them.</p>\n" +
         svg(chart) + "<ul class=\"key\">\n" + key + "</ul>\n" +
         html_table({"method", "stage", "seconds", "computing", "communication", "I/O", "other"}, rows);
}

// What `mrmf report` shows of tournaments: whose model descends from whose, and how scores went.

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
