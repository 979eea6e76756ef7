// The table of `mrmf compare`.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/compare/compare.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kGap = 3;  // between columns

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& columns) {
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = 0;
    for (const std::string& cell : column) width = std::max(width, cell.size());
    widths.push_back(width);
  }
  return widths;
}

// The columns [first, last) of the table, beside the names.
std::string block(const ComparisonTable& table, const std::vector<std::size_t>& widths, std::size_t first,
                  std::size_t last) {
  std::size_t line_width = widths[0];
  for (std::size_t c = first; c < last; ++c) line_width += kGap + widths[c];
  std::string out;
  for (std::size_t row = 0; row < table.columns.front().size(); ++row) {
    if (row == table.heading) out += std::string(line_width, '-') + "\n";
    std::string line = fmt::format("{:<{}}", table.columns[0][row], widths[0]);
    bool any = false;
    for (std::size_t c = first; c < last; ++c) {
      any = any || !table.columns[c][row].empty();
      line += fmt::format("{:>{}}", table.columns[c][row], kGap + widths[c]);
    }
    if (!any) continue;
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

// Columns that do not fit a line of `width` characters go below, beside the names again; 0: no limit. Leaves out rows
// that have no cell but their name.
std::string text_of(const ComparisonTable& table, std::size_t width) {
  const std::vector<std::size_t> widths = widths_of(table.columns);
  std::string out;
  for (std::size_t first = 1; first < table.columns.size();) {
    std::size_t last = first, used = widths[0];
    while (last < table.columns.size()) {
      std::size_t end = last + 1, more = kGap + widths[last];
      for (; table.beside.contains(end); ++end) more += kGap + widths[end];
      if (last > first && width > 0 && used + more > width) break;
      used += more;
      last = end;
    }
    out += (out.empty() ? "" : "\n") + block(table, widths, first, last);
    first = last;
  }
  return out;
}

constexpr std::size_t kLongest = 24;  // longest setting in a heading, in characters; longer ones stand below the table

// Column headings: a row for each fact, and for each setting that distinguishes columns of one method.
class Headings {
 public:
  explicit Headings(const std::vector<RunSet>& sets) {
    for (const RunSet& run_set : sets)
      for (const auto& [key, value] : run_set.labels) keys_.insert(key);
  }

  std::size_t size() const { return kFacts + keys_.size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names(kFacts);
    for (const std::string& key : keys_) names.push_back(key.substr(key.find('.') + 1));
    return names;
  }
  std::vector<std::string> cells(const RunSet& run_set) {
    std::vector<std::string> cells = facts(run_set);
    for (const std::string& key : keys_) {
      const auto found = run_set.labels.find(key);
      cells.push_back(found == run_set.labels.end() ? "" : shortened(key, found->second));
    }
    return cells;
  }
  /// The settings that were too long for a heading.
  std::string notes() const {
    std::string text;
    for (std::size_t i = 0; i < long_.size(); ++i) text += fmt::format("({}) {}\n", letter(i), long_[i]);
    return text;
  }

 private:
  static constexpr std::size_t kFacts = 6;

  static std::string letter(std::size_t i) {
    return i < 26 ? std::string(1, static_cast<char>('a' + i)) : std::to_string(i + 1);
  }
  // "seeds 1-3, 5"
  static std::string seeds_text(const RunSet& run_set) {
    std::set<std::uint64_t> seeds;
    for (const Run& run : run_set.runs) seeds.insert(run.result.seed);
    std::string text = seeds.size() == 1 ? "seed " : "seeds ";
    for (auto first = seeds.begin(); first != seeds.end();) {
      auto last = first, next = std::next(first);
      while (next != seeds.end() && *next == *last + 1) last = next++;
      text += first == seeds.begin() ? "" : ", ";
      text += first == last ? std::to_string(*first)
                            : fmt::format("{}{}{}", *first, std::next(first) == last ? ", " : "-", *last);
      first = next;
    }
    return text;
  }
  static std::vector<std::string> facts(const RunSet& run_set) {
    const RunResult& r = run_set.first();
    std::set<std::vector<Extent>> choices;
    for (const Run& run : run_set.runs) choices.insert(run.result.resolutions);
    std::string resolutions;
    for (const Extent& e : r.resolutions) resolutions += (resolutions.empty() ? "" : " ") + resolution_text(e, r.axes);
    const bool mrmf = r.method == MethodName::mrmf;
    return {method_name(r),
            resolutions,
            choices.size() > 1 ? fmt::format("and {} more choices of axes", choices.size() - 1) : "",
            mrmf ? "top " + to_string(r.top) : "",
            mrmf && fresh_bottom(run_set.runs.front()) ? "bottom fresh" : "",
            fmt::format("n = {}, {}", run_set.runs.size(), seeds_text(run_set))};
  }
  std::string shortened(const std::string& key, const std::string& value) {
    if (value.size() <= kLongest) return value;
    const std::string text = key + " = " + value;
    const auto found = std::ranges::find(long_, text);
    const auto index = static_cast<std::size_t>(found - long_.begin());
    if (found == long_.end()) long_.push_back(text);
    return "(" + letter(index) + ")";
  }

  std::set<std::string> keys_;
  std::vector<std::string> long_;
};

// Epochs are whole numbers, so only a mean may need decimals.
std::string count_text(const Spread& s) {
  const bool whole = s.deviation == 0 && s.mean == std::floor(s.mean);
  return whole ? fmt::format("{:.0f}", s.mean) : text(s, 1);
}

std::string target_text(const RunSet& run_set) {
  const auto reached =
      std::count_if(run_set.runs.begin(), run_set.runs.end(), [](const Run& r) { return r.result.target_reached; });
  const bool set = std::any_of(run_set.runs.begin(), run_set.runs.end(),
                               [](const Run& r) { return r.result.target || r.result.metric_target; });
  return set ? fmt::format("{} of {}", reached, run_set.runs.size()) : "no target";
}

std::string cost_text(const RunSet& run_set) {
  std::vector<double> costs;
  for (const Run& run : run_set.runs) {
    if (const auto cost = equivalent_epochs(run)) costs.push_back(*cost);
  }
  return text(spread(costs), 2);
}

// How long the teams that were ready first waited for the others; none if no two teams trained at once.
std::optional<double> waited(const Run& run) {
  double seconds = 0;
  for (const PhaseRecord& stage : run.result.phases) seconds += stage.waited;
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

bool any_waited(const std::vector<RunSet>& sets) {
  return std::ranges::any_of(sets, [](const RunSet& run_set) {
    return std::ranges::any_of(run_set.runs, [](const Run& run) { return waited(run).has_value(); });
  });
}

std::string waited_text(const RunSet& run_set) {
  std::vector<double> seconds;
  for (const Run& run : run_set.runs)
    if (const auto wait = waited(run)) seconds.push_back(*wait);
  return seconds.empty() ? kNone : text(spread(seconds), 2);
}

// "-0.00174 +- 0.00030": seed by seed, with the standard error.
std::string difference_text(const RunSet& run_set, MethodName method, const std::vector<RunSet>& sets) {
  const RunSet* other = reference_of(run_set, method, sets);
  if (!other) return kNone;
  const std::optional<Comparison> less =
      compared(run_set, *other, loss_of, [](double own, double of) { return own - of; });
  if (!less) return kNone;
  const std::string mean = fmt::format("{:+.5f}", less->spread.mean);
  if (!less->paired) return mean + ", unpaired";
  return less->spread.count < 2 ? mean : fmt::format("{} +- {:.5f}", mean, less->spread.error());
}

std::set<Metric> metrics_of(const std::vector<RunSet>& sets) {
  std::set<Metric> metrics;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs)
      if (run.result.metric) metrics.insert(run.result.metric->metric);
  return metrics;
}

// Over the runs that measured it.
std::string metric_text(const RunSet& run_set, Metric metric) {
  std::vector<double> values;
  for (const Run& run : run_set.runs)
    if (run.result.metric && run.result.metric->metric == metric) values.push_back(run.result.metric->value);
  return values.empty() ? kNone : text(spread(values), 4);
}

// The rows below the headings.
struct Rows {
  const std::vector<RunSet>& sets;
  const CostRows& costs;
  bool teams = false;
  std::set<Metric> metrics = metrics_of(sets);

  std::vector<std::string> names() const;
  std::vector<std::string> cells(const RunSet& run_set) const;
  std::vector<std::string> cells(const PaperColumn& paper) const;
};

std::vector<std::string> Rows::names() const {
  std::vector<std::string> names{"validation loss"};
  for (const Metric metric : metrics) names.push_back("validation " + to_string(metric));
  for (const char* name : {"loss less the baseline's", "loss less MRT's", "target reached",
                           "epochs before fusion, coarse", "epochs before fusion, dense", "epochs after fusion"})
    names.emplace_back(name);
  for (const std::string& name : costs.names()) names.push_back(name);
  if (teams) names.emplace_back("early teams' wait (s)");
  names.emplace_back("cost in full-resolution epochs");
  return names;
}

std::vector<std::string> Rows::cells(const RunSet& run_set) const {
  std::vector<std::string> cells{text(spread_over(run_set, [](const Run& r) { return r.result.validation_loss; }), 5)};
  for (const Metric metric : metrics) cells.push_back(metric_text(run_set, metric));
  for (const MethodName method : {MethodName::baseline, MethodName::mrt})
    cells.push_back(difference_text(run_set, method, sets));
  cells.push_back(target_text(run_set));
  for (const Role role : {Role::coarse, Role::dense}) {
    const Spread epochs = spread_over(run_set, [&](const Run& r) { return epochs_of(r, role); });
    cells.push_back(epochs.mean > 0 ? count_text(epochs) : kNone);
  }
  cells.push_back(count_text(spread_over(run_set, epochs_after)));
  for (const std::string& cell : costs.cells(run_set)) cells.push_back(cell);
  if (teams) cells.push_back(waited_text(run_set));
  cells.push_back(cost_text(run_set));
  return cells;
}

std::vector<std::string> Rows::cells(const PaperColumn& paper) const {
  const auto figure = [](double value, int digits) {
    return value < 0 ? kNone : fmt::format("{:.{}f}", value, digits);
  };
  std::vector<std::string> cells{figure(paper.validation_loss, 4), "", "", ""};
  cells.insert(cells.end(), metrics.size(), "");
  for (const int epochs : {paper.coarse_epochs, paper.dense_epochs, paper.after_epochs})
    cells.push_back(figure(epochs, 0));
  for (const std::string& cell : costs.cells(paper)) cells.push_back(cell);
  if (teams) cells.emplace_back("");
  cells.emplace_back("");
  return cells;
}

std::string notes(const std::vector<RunSet>& sets, const CostRows& costs, bool to_loss, bool paper, bool other_run) {
  std::string text =
      "\nMean +- sample standard deviation over n runs.\n"
      "Savings and differences of the loss: mean +- standard error, seed by seed; unpaired: of the means, as seeds "
      "differ.\n"
      "Arithmetic (GFLOP and so on): of convolutions and dense layers, validation included; the same on every "
      "machine.\n"
      "Cost in full-resolution epochs is of arithmetic.\n";
  for (const MethodName method : {MethodName::baseline, MethodName::mrt}) {
    const auto columns = std::ranges::count_if(sets, [&](const RunSet& g) { return g.first().method == method; });
    if (columns > 1)
      text += fmt::format(
          "There are {} {} columns: a column is compared with the first of them that ends at the same resolution.\n",
          columns, method == MethodName::mrt ? "MRT" : "baseline");
  }
  if (std::ranges::any_of(sets, [](const RunSet& g) { return g.first().top == TopRule::stem; }))
    text +=
        "Top stem: the last model is the coarse one behind a first layer, front: another network than the baseline's, "
        "and cheaper in\nuse; full-resolution epochs are of the network as it is configured.\n";
  if (costs.equal_loss())
    text +=
        "Saved at equal loss: against the baseline of the length that would end at the same loss, read off the curve "
        "through the baselines\nhere or of --baselines; +- standard error, each seed left out in turn; >= and <=: the "
        "loss is below or above that of every baseline.\n";
  if (to_loss) text += "Savings to a loss: - unless all runs of both columns reached it.\n";
  if (paper)
    text += "paper: Neuron Inverter, its own data, 16 A100 GPUs (Tables 5 and 7). Compare ratios, not seconds.\n";
  if (other_run) {
    text +=
        "[1] seconds per stage are of Table 7's run (coarse batch 2048, 2250.21 s in all), the rest of Table 5's.\n";
  }
  for (const std::string& line : warnings(sets)) text += "warning: " + line + "\n";
  return text;
}

}  // namespace

ComparisonTable comparison_table(const std::vector<RunSet>& sets, const CompareOptions& options) {
  const CostRows costs(sets, options);
  const Rows rows{sets, costs, any_waited(sets)};
  Headings headings(sets);
  const auto column = [](std::vector<std::string> heading, const std::vector<std::string>& cells) {
    heading.insert(heading.end(), cells.begin(), cells.end());
    return heading;
  };
  ComparisonTable table{.columns = {column(headings.names(), rows.names())}, .heading = headings.size()};
  bool paper = false, other_run = false;
  for (const RunSet& run_set : sets) {
    table.columns.push_back(column(headings.cells(run_set), rows.cells(run_set)));
    const PaperColumn* figures = paper_figures(run_set.first());
    if (!figures) continue;
    std::vector<std::string> heading(headings.size());
    heading[0] = "paper";
    if (figures->other_run) heading[1] = "[1]";
    table.beside.insert(table.columns.size());
    table.columns.push_back(column(std::move(heading), rows.cells(*figures)));
    paper = true;
    other_run = other_run || figures->other_run;
  }
  table.settings = headings.notes();
  table.notes = notes(sets, costs, options.target.has_value(), paper, other_run);
  table.conclusions = costs.conclusions();
  return table;
}

std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options) {
  const ComparisonTable table = comparison_table(run_sets(folders), options);
  return text_of(table, options.width) + (table.settings.empty() ? "" : "\n" + table.settings) + table.notes +
         table.conclusions;
}

std::size_t output_width() {
  constexpr std::size_t kLeast = 60, kOtherwise = 120;
  std::size_t width = 0;
  if (const char* columns = std::getenv("COLUMNS")) width = std::strtoul(columns, nullptr, 10);
  winsize window{};
  if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) width = window.ws_col;
  return width == 0 ? kOtherwise : std::max(width, kLeast);
}

// The paper's figures, and which of them belong beside a run.

namespace {

constexpr PaperColumn kBaseline{.validation_loss = 0.0400, .after_epochs = 84, .total_seconds = 3840.60};
constexpr PaperColumn kMrt{
    .validation_loss = 0.0399, .coarse_epochs = 35, .after_epochs = 41, .total_seconds = 2802.61};
constexpr PaperColumn kOneFusion{.validation_loss = 0.0398,
                                 .coarse_epochs = 35,
                                 .dense_epochs = 4,
                                 .after_epochs = 32,
                                 .stage_seconds = {709.20, -1},
                                 .finetune_seconds = 1541.00,
                                 .total_seconds = 2528.51,
                                 .other_run = true};
constexpr PaperColumn kTwoFusions{
    .validation_loss = 0.039, .stage_seconds = {166.35, 525.60}, .finetune_seconds = 1421.50, .total_seconds = 2113.45};

}  // namespace

const PaperColumn& paper_baseline() { return kBaseline; }
const PaperColumn& paper_mrt() { return kMrt; }

const PaperColumn* paper_figures(const RunResult& result) {
  if (result.model != "neuron_inverter") return nullptr;
  if (result.method == MethodName::baseline) return &kBaseline;
  if (result.method == MethodName::mrt) return &kMrt;
  if (result.method != MethodName::mrmf || result.top != TopRule::dense) return nullptr;
  if (result.resolutions.size() == 2) return &kOneFusion;
  return result.resolutions.size() == 3 ? &kTwoFusions : nullptr;
}

}  // namespace mrmf
