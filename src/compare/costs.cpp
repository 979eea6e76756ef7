// The comparison's rows about the cost of training.
#include "src/compare/runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mrmf {
namespace {

std::string saved_text(const Comparison& saved) {
  const std::string mean = fmt::format("{:.1f}", saved.spread.mean);
  if (!saved.paired) return mean + " %, unpaired";
  return saved.spread.count < 2 ? mean + " %" : fmt::format("{} +- {:.1f} %", mean, saved.spread.error());
}

std::string equal_loss_text(const std::optional<EqualLoss>& saved) {
  if (!saved) return kNone;
  const char* bound = saved->bound == EqualLoss::Bound::at_least  ? ">= "
                      : saved->bound == EqualLoss::Bound::at_most ? "<= "
                                                                  : "";
  const std::string mean = fmt::format("{}{:.1f}", bound, 100 * saved->saved);
  if (!saved->paired) return mean + " %, unpaired";
  return saved->error ? fmt::format("{} +- {:.1f} %", mean, 100 * *saved->error) : mean + " %";
}

std::string stage_name(int stage) {
  const std::vector<std::string> names{"first", "second", "third", "fourth"};
  const auto i = static_cast<std::size_t>(stage) - 1;
  return i < names.size() ? names[i] + " stage" : fmt::format("stage {}", stage);
}

std::string reached_text(const Spread& costs, std::size_t runs) {
  if (costs.count == 0) return "not reached";
  return text(costs, 2) + (costs.count == runs ? "" : fmt::format(" ({} of {})", costs.count, runs));
}

double most_gflop(const std::vector<RunSet>& sets) {
  double most = 0;
  for (const RunSet& run_set : sets) {
    for (const Run& run : run_set.runs) most = std::max(most, total_cost(run).gflop);
  }
  return most;
}

}  // namespace

CostRows::CostRows(const std::vector<RunSet>& sets, const CompareOptions& options)
    : sets_(sets), target_(options.target) {
  for (const RunSet& run_set : sets) {
    for (const Run& run : run_set.runs) stages_ = std::max(stages_, fusion_stages(run));
  }
  const auto add = [&](Measure measure) {
    measure.equal_loss = std::ranges::any_of(
        sets, [&](const RunSet& g) { return saved_at_equal_loss(g, measure.baselines, measure.value).has_value(); });
    measures_.push_back(std::move(measure));
  };
  // Seconds are this machine's, so the curve of a file that was made on another one is for arithmetic alone.
  const bool from_file = !options.baselines.empty();
  add({"time", "s", &Cost::seconds, 1, from_file ? std::vector<RunSet>{} : sets});
  const double most = most_gflop(sets);
  if (most <= 0) return;
  const auto [unit, scale] = most < 1e4   ? std::pair("GFLOP", 1.0)
                             : most < 1e7 ? std::pair("TFLOP", 1e-3)
                                          : std::pair("PFLOP", 1e-6);
  add({"arithmetic", unit, &Cost::gflop, scale, from_file ? read_baselines(options.baselines) : sets});
}

bool CostRows::equal_loss() const { return std::ranges::any_of(measures_, &Measure::equal_loss); }

std::vector<std::string> CostRows::names() const {
  std::vector<std::string> names;
  for (const Measure& measure : measures_) {
    const auto add = [&](const std::string& name) { names.push_back(fmt::format("{} ({})", name, measure.unit)); };
    for (int s = 1; s <= stages_; ++s) add(stage_name(s));
    add("finetune");
    add("total " + measure.name);
    const auto add_saved = [&](const std::string& what) {
      for (const char* method : {"baseline", "MRT"}) names.push_back(fmt::format("{} saved against {}", what, method));
    };
    add_saved(measure.name);
    if (measure.equal_loss) names.push_back(measure.name + " saved at equal loss");
    if (!target_) continue;
    add(fmt::format("{} to loss {:g}", measure.name, *target_));
    add_saved(measure.name + " to loss");
  }
  return names;
}

std::string CostRows::conclusions() const {
  std::string text;
  for (const RunSet& run_set : sets_) {
    const Measure& arithmetic = measures_.back();
    const std::optional<EqualLoss> saved = saved_at_equal_loss(run_set, arithmetic.baselines, arithmetic.value);
    if (!saved || arithmetic.value != &Cost::gflop) continue;
    std::vector<double> epochs, losses;
    for (const Run& run : run_set.runs) {
      epochs.push_back(equivalent_epochs(run).value_or(NAN));
      losses.push_back(run.result.validation_loss);
    }
    const double cost = spread(epochs).mean;
    const char* baseline = saved->bound == EqualLoss::Bound::at_least  ? "no baseline ends as low, the best takes"
                           : saved->bound == EqualLoss::Bound::at_most ? "every baseline ends lower, the cheapest takes"
                                                                       : "a baseline that ends there takes";
    text += fmt::format(
        "{}: {} of the arithmetic saved at equal loss. {:.2f} epochs at full resolution end at {:.4f}; {} {:.2f}.\n",
        method_name(run_set.first()), equal_loss_text(saved), cost, spread(losses).mean, baseline,
        cost / (1 - saved->saved));
  }
  return text.empty() ? text : "\n" + text;
}

std::string CostRows::saved(const RunSet& run_set, MethodName method, const Figure& figure) const {
  const RunSet* other = reference_of(run_set, method, sets_);
  if (!other) return kNone;
  const auto saving = [](double own, double of) { return 100 * (1 - own / of); };
  const std::optional<Comparison> saved = compared(run_set, *other, figure, saving);
  return saved ? saved_text(*saved) : kNone;
}

void CostRows::add_cells(const RunSet& run_set, const Measure& measure, std::vector<std::string>& cells) const {
  const auto figure_of = [&](std::function<std::optional<Cost>(const Run&)> cost) -> Figure {
    return [&measure, cost = std::move(cost)](const Run& run) -> std::optional<double> {
      const std::optional<Cost> c = cost(run);
      return c ? std::optional(measure.scale * (*c).*measure.value) : std::nullopt;
    };
  };
  const auto spread_of = [&](const Figure& figure) {
    std::vector<double> values;
    for (const Run& run : run_set.runs)
      if (const std::optional<double> value = figure(run)) values.push_back(*value);
    return spread(values);
  };
  for (int s = 1; s <= stages_; ++s) {
    const Spread stage = spread_of(figure_of([s](const Run& run) { return cost_of(run, s); }));
    cells.push_back(s <= fusion_stages(run_set.runs.front()) ? text(stage, 2) : kNone);
  }
  const Figure after = figure_of([](const Run& run) { return cost_of(run, 0); });
  cells.push_back(run_set.first().method == MethodName::baseline ? kNone : text(spread_of(after), 2));
  const Figure total = figure_of(total_cost);
  cells.push_back(text(spread_of(total), 2));
  for (const MethodName method : {MethodName::baseline, MethodName::mrt})
    cells.push_back(saved(run_set, method, total));
  if (measure.equal_loss)
    cells.push_back(equal_loss_text(saved_at_equal_loss(run_set, measure.baselines, measure.value)));
  if (!target_) return;
  const Figure reached = figure_of([this](const Run& run) { return cost_to(run, *target_); });
  cells.push_back(reached_text(spread_of(reached), run_set.runs.size()));
  for (const MethodName method : {MethodName::baseline, MethodName::mrt})
    cells.push_back(saved(run_set, method, reached));
}

std::vector<std::string> CostRows::cells(const RunSet& run_set) const {
  std::vector<std::string> cells;
  for (const Measure& measure : measures_) add_cells(run_set, measure, cells);
  return cells;
}

std::vector<std::string> CostRows::cells(const PaperColumn& paper) const {
  const auto seconds = [](double value) { return value < 0 ? kNone : fmt::format("{:.2f}", value); };
  std::vector<std::string> cells;
  for (int s = 1; s <= stages_; ++s) {
    const auto i = static_cast<std::size_t>(s) - 1;
    cells.push_back(i < paper.stage_seconds.size() ? seconds(paper.stage_seconds[i]) : kNone);
  }
  cells.push_back(seconds(paper.finetune_seconds));
  cells.push_back(seconds(paper.total_seconds));
  for (const PaperColumn* other : {&paper_baseline(), &paper_mrt()}) {
    const bool faster = paper.total_seconds < other->total_seconds;
    cells.push_back(faster ? fmt::format("{:.1f} %", 100 * (1 - paper.total_seconds / other->total_seconds)) : kNone);
  }
  cells.resize(names().size());
  return cells;
}

}  // namespace mrmf
