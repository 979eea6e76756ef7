#include "src/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "src/compare_costs.hpp"
#include "src/compare_paper.hpp"
#include "src/compare_runs.hpp"
#include "src/plan.hpp"
#include "src/text_table.hpp"

namespace mrmf {
namespace {

constexpr const char* kNone = "-";
constexpr std::size_t kHeading = 5;  // cells that name a column

std::string method_name(const RunResult& r) {
  const std::size_t fusions = r.resolutions.size() - 1;
  if (r.method == "mrt") return "MRT";
  if (r.method == "mrmf") return fmt::format("MRMF, {} fusion{}", fusions, fusions == 1 ? "" : "s");
  return r.method;
}

std::string resolutions_text(const Group& group) {
  std::set<std::vector<Extent>> choices;
  for (const Run& run : group.runs) choices.insert(run.result.resolutions);
  std::string text;
  for (const Extent& e : group.first().resolutions)
    text += (text.empty() ? "" : " ") + resolution_text(e, group.first().axes);
  return choices.size() > 1 ? fmt::format("{}, mean of {} choices of axes", text, choices.size()) : text;
}

std::vector<std::string> heading(const Group& group) {
  const RunResult& r = group.first();
  std::set<std::uint64_t> seeds;
  for (const Run& run : group.runs) seeds.insert(run.result.seed);
  return {method_name(r), resolutions_text(group),
          r.method == "mrmf" ? "top " + r.top + (fresh_bottom(group.runs.front()) ? ", bottom fresh" : "") : "",
          group.settings_label,
          fmt::format("n = {}, seed{} {}", group.runs.size(), seeds.size() == 1 ? "" : "s", fmt::join(seeds, ", "))};
}

template <class Figure>
Spread over(const Group& group, const Figure& figure) {
  std::vector<double> values;
  for (const Run& run : group.runs) values.push_back(figure(run));
  return spread(values);
}

// Epochs are whole numbers: digits only where a mean needs them.
std::string count_text(const Spread& s) {
  const bool whole = s.deviation == 0 && s.mean == std::floor(s.mean);
  return whole ? fmt::format("{:.0f}", s.mean) : text(s, 1);
}

std::string target_text(const Group& group) {
  const auto reached =
      std::count_if(group.runs.begin(), group.runs.end(), [](const Run& r) { return r.result.target_reached; });
  const bool set =
      std::any_of(group.runs.begin(), group.runs.end(), [](const Run& r) { return r.result.target.has_value(); });
  return set ? fmt::format("{} of {}", reached, group.runs.size()) : "no target";
}

std::string cost_text(const Group& group) {
  std::vector<double> costs;
  for (const Run& run : group.runs) {
    if (const auto cost = equivalent_epochs(run)) costs.push_back(*cost);
  }
  return text(spread(costs), 2);
}

// A fusion stage's team that was ready before the other; none where no two teams trained at once.
std::optional<double> waited(const Run& run) {
  double seconds = 0;
  for (const StageRecord& stage : run.result.stages) seconds += stage.waited;
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool any_waited(const std::vector<Group>& groups) {
  return std::ranges::any_of(groups, [](const Group& group) {
    return std::ranges::any_of(group.runs, [](const Run& run) { return waited(run).has_value(); });
  });
}

std::string waited_text(const Group& group) {
  std::vector<double> seconds;
  for (const Run& run : group.runs)
    if (const auto wait = waited(run)) seconds.push_back(*wait);
  return seconds.empty() ? kNone : text(spread(seconds), 2);
}

std::vector<std::string> row_names(const CostRows& costs, bool teams) {
  std::vector<std::string> names{"",
                                 "",
                                 "",
                                 "",
                                 "",
                                 "validation loss",
                                 "target reached",
                                 "epochs before fusion, coarse",
                                 "epochs before fusion, dense",
                                 "epochs after fusion"};
  for (const std::string& name : costs.names()) names.push_back(name);
  if (teams) names.emplace_back("early teams' wait (s)");
  names.emplace_back("cost in full-resolution epochs");
  return names;
}

std::vector<std::string> own_column(const Group& group, const CostRows& costs, bool teams) {
  std::vector<std::string> cells = heading(group);
  cells.push_back(text(over(group, [](const Run& r) { return r.result.validation_loss; }), 5));
  cells.push_back(target_text(group));
  for (const char* role : {"coarse", "dense"}) {
    const Spread epochs = over(group, [&](const Run& r) { return epochs_of(r, role); });
    cells.push_back(epochs.mean > 0 ? count_text(epochs) : kNone);
  }
  cells.push_back(count_text(over(group, epochs_after)));
  for (const std::string& cell : costs.cells(group)) cells.push_back(cell);
  if (teams) cells.push_back(waited_text(group));
  cells.push_back(cost_text(group));
  return cells;
}

std::vector<std::string> paper_column(const PaperColumn& paper, const CostRows& costs, bool teams) {
  const auto figure = [](double value, int digits) {
    return value < 0 ? kNone : fmt::format("{:.{}f}", value, digits);
  };
  std::vector<std::string> cells{"paper", "", "", "", paper.other_run ? "[1]" : "", figure(paper.validation_loss, 4),
                                 ""};
  for (const int epochs : {paper.coarse_epochs, paper.dense_epochs, paper.after_epochs})
    cells.push_back(figure(epochs, 0));
  for (const std::string& cell : costs.cells(paper)) cells.push_back(cell);
  if (teams) cells.emplace_back("");
  cells.emplace_back("");
  return cells;
}

std::string notes(const std::vector<Group>& groups, bool to_loss, bool paper, bool other_run) {
  std::string text =
      "\nMean +- sample standard deviation over n seeds. Savings are of the means.\n"
      "Arithmetic (GFLOP and so on) is that of convolutions and dense layers, validation included: it does not depend "
      "on the machine.\n"
      "Cost in full-resolution epochs is of arithmetic.\n";
  if (to_loss) text += "Savings to a loss: - unless all runs of both columns reached it.\n";
  if (paper)
    text += "paper: Neuron Inverter, its own data, 16 A100 GPUs (Tables 5 and 7). Compare ratios, not seconds.\n";
  if (other_run) {
    text +=
        "[1] seconds per stage are of Table 7's run (coarse batch 2048, 2250.21 s in all), the rest of Table 5's.\n";
  }
  for (const std::string& line : warnings(groups)) text += "warning: " + line + "\n";
  return text;
}

}  // namespace

std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options) {
  const std::vector<Group> groups = group_runs(folders);
  const CostRows costs(groups, options.target);
  const bool teams = any_waited(groups);
  TextTable table{{row_names(costs, teams)}, kHeading};
  bool paper = false, other_run = false;
  for (const Group& group : groups) {
    table.columns.push_back(own_column(group, costs, teams));
    const PaperColumn* column = paper_figures(group.first());
    if (!column) continue;
    table.columns.push_back(paper_column(*column, costs, teams));
    paper = true;
    other_run = other_run || column->other_run;
  }
  return table.text() + notes(groups, options.target.has_value(), paper, other_run);
}

}  // namespace mrmf
