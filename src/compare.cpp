#include "src/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/compare_paper.hpp"
#include "src/compare_runs.hpp"
#include "src/plan.hpp"

namespace mrmf {
namespace {

constexpr const char* kNone = "-";

/// A table under construction: one list of cells per column, the first column holding the rows' names.
struct Table {
  std::vector<std::vector<std::string>> columns;
  std::size_t heading = 0;  ///< leading cells of a column that name it

  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& column : columns) {
      std::size_t width = 0;
      for (const std::string& cell : column) width = std::max(width, cell.size());
      widths.push_back(width);
    }
    std::string out;
    for (std::size_t row = 0; row < columns.front().size(); ++row) {
      if (row == heading) out += std::string(line_width(widths), '-') + "\n";
      const auto blank = [row](const auto& column) { return column[row].empty(); };
      if (std::all_of(columns.begin(), columns.end(), blank)) continue;
      std::string line = fmt::format("{:<{}}", columns[0][row], widths[0]);
      for (std::size_t c = 1; c < columns.size(); ++c) line += fmt::format("   {:>{}}", columns[c][row], widths[c]);
      line.resize(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  static std::size_t line_width(const std::vector<std::size_t>& widths) {
    std::size_t width = 3 * (widths.size() - 1);
    for (const std::size_t w : widths) width += w;
    return width;
  }
};

std::string method_name(const RunResult& r) {
  const std::size_t fusions = r.resolutions.size() - 1;
  if (r.method == "mrt") return "MRT";
  if (r.method == "mrmf") return fmt::format("MRMF, {} fusion{}", fusions, fusions == 1 ? "" : "s");
  return r.method;
}

std::vector<std::string> heading(const Group& group) {
  const RunResult& r = group.first();
  std::string resolutions, seeds;
  for (const Extent& e : r.resolutions) resolutions += (resolutions.empty() ? "" : " ") + resolution_text(e, r.axes);
  for (const Run& run : group.runs) seeds += (seeds.empty() ? "" : ", ") + std::to_string(run.result.seed);
  return {method_name(r), resolutions, r.method == "mrmf" ? "top " + r.top : "", group.settings_label,
          fmt::format("n = {}, seed{} {}", group.runs.size(), group.runs.size() == 1 ? "" : "s", seeds)};
}

using Figure = std::function<double(const Run&)>;

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

std::string saved_text(const Spread& own, const Spread& other) {
  const double ratio = own.mean / other.mean;
  const std::string saved = fmt::format("{:.1f}", 100 * (1 - ratio));
  if (own.count < 2 || other.count < 2) return saved + " %";
  const double relative = std::hypot(own.deviation / own.mean, other.deviation / other.mean);
  return fmt::format("{} +- {:.1f} %", saved, 100 * ratio * relative);
}

std::string target_text(const Group& group) {
  const auto reached =
      std::count_if(group.runs.begin(), group.runs.end(), [](const Run& r) { return r.result.target_reached; });
  const bool set =
      std::any_of(group.runs.begin(), group.runs.end(), [](const Run& r) { return r.result.target.has_value(); });
  return set ? fmt::format("{} of {}", reached, group.runs.size()) : "no target";
}

std::string time_to_text(const Group& group, double target) {
  std::vector<double> times;
  for (const Run& run : group.runs) {
    if (const auto time = time_to(run, target)) times.push_back(*time);
  }
  if (times.empty()) return "not reached";
  const bool all = times.size() == group.runs.size();
  return text(spread(times), 2) + (all ? "" : fmt::format(" ({} of {})", times.size(), group.runs.size()));
}

std::string cost_text(const Group& group) {
  std::vector<double> costs;
  for (const Run& run : group.runs) {
    if (const auto cost = equivalent_epochs(run)) costs.push_back(*cost);
  }
  return text(spread(costs), 2);
}

/// What every column needs to know of the others.
struct Context {
  const std::vector<Group>& groups;
  int stages = 0;  ///< largest number of fusion stages
  std::optional<double> target;

  /// The first group of this method that ends at the same resolution.
  const Group* reference(const std::string& method, const Group& own) const {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.first().method == method && g.first().resolutions.back() == own.first().resolutions.back();
    });
    return found == groups.end() || &*found == &own ? nullptr : &*found;
  }
};

std::string stage_name(int stage) {
  const std::vector<std::string> names{"first", "second", "third", "fourth"};
  const auto i = static_cast<std::size_t>(stage) - 1;
  return (i < names.size() ? names[i] + " stage" : fmt::format("stage {}", stage)) + " (s)";
}

std::vector<std::string> row_names(const Context& context) {
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
  for (int s = 1; s <= context.stages; ++s) names.push_back(stage_name(s));
  for (const char* name : {"finetune (s)", "total time (s)", "saved against baseline", "saved against MRT"}) {
    names.emplace_back(name);
  }
  if (context.target) names.push_back(fmt::format("time to loss {:g} (s)", *context.target));
  names.emplace_back("cost in full-resolution epochs");
  return names;
}

std::vector<std::string> own_column(const Group& group, const Context& context) {
  std::vector<std::string> cells = heading(group);
  const bool baseline = group.first().method == "baseline";
  cells.push_back(text(over(group, [](const Run& r) { return r.result.validation_loss; }), 5));
  cells.push_back(target_text(group));
  for (const char* role : {"coarse", "dense"}) {
    const Spread epochs = over(group, [&](const Run& r) { return epochs_of(r, role); });
    cells.push_back(epochs.mean > 0 ? count_text(epochs) : kNone);
  }
  cells.push_back(count_text(over(group, epochs_after)));
  for (int s = 1; s <= context.stages; ++s) {
    const Spread seconds = over(group, [&](const Run& r) { return seconds_of(r, s); });
    cells.push_back(s <= fusion_stages(group.runs.front()) ? text(seconds, 2) : kNone);
  }
  cells.push_back(baseline ? kNone : text(over(group, [](const Run& r) { return seconds_of(r, 0); }), 2));
  const Figure total = [](const Run& r) { return r.result.total_seconds; };
  cells.push_back(text(over(group, total), 2));
  for (const char* method : {"baseline", "mrt"}) {
    const Group* other = baseline ? nullptr : context.reference(method, group);
    cells.push_back(other ? saved_text(over(group, total), over(*other, total)) : kNone);
  }
  if (context.target) cells.push_back(time_to_text(group, *context.target));
  cells.push_back(cost_text(group));
  return cells;
}

std::string figure(double value, int digits) { return value < 0 ? kNone : fmt::format("{:.{}f}", value, digits); }

std::vector<std::string> paper_cells(const PaperColumn& paper, const Context& context) {
  std::vector<std::string> cells{"paper", "", "", "", paper.other_run ? "[1]" : "", figure(paper.validation_loss, 4),
                                 ""};
  for (const int epochs : {paper.coarse_epochs, paper.dense_epochs, paper.after_epochs})
    cells.push_back(figure(epochs, 0));
  for (int s = 1; s <= context.stages; ++s) {
    const auto i = static_cast<std::size_t>(s) - 1;
    cells.push_back(i < paper.stage_seconds.size() ? figure(paper.stage_seconds[i], 2) : kNone);
  }
  cells.push_back(figure(paper.finetune_seconds, 2));
  cells.push_back(figure(paper.total_seconds, 2));
  for (const PaperColumn* other : {&paper_baseline(), &paper_mrt()}) {
    const bool faster = paper.total_seconds < other->total_seconds;
    cells.push_back(faster ? fmt::format("{:.1f} %", 100 * (1 - paper.total_seconds / other->total_seconds)) : kNone);
  }
  if (context.target) cells.emplace_back("");
  cells.emplace_back("");
  return cells;
}

std::string notes(const std::vector<Group>& groups, bool paper, bool other_run) {
  std::string text =
      "\nMean +- sample standard deviation over n seeds. Savings are of the mean total times.\n"
      "Cost: all epochs' seconds in units of the run's median epoch after fusion.\n";
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
  Context context{groups, 0, options.target};
  for (const Group& group : groups) {
    for (const Run& run : group.runs) context.stages = std::max(context.stages, fusion_stages(run));
  }
  Table table;
  table.heading = 5;
  table.columns.push_back(row_names(context));
  bool paper = false, other_run = false;
  for (const Group& group : groups) {
    table.columns.push_back(own_column(group, context));
    const PaperColumn* column = paper_column(group.first());
    if (!column) continue;
    table.columns.push_back(paper_cells(*column, context));
    paper = true;
    other_run = other_run || column->other_run;
  }
  return table.text() + notes(groups, paper, other_run);
}

}  // namespace mrmf
