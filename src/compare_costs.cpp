#include "src/compare_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mrmf {
namespace {

constexpr const char* kNone = "-";

std::string saved_text(const Spread& own, const Spread& other) {
  if (other.mean <= 0) return kNone;
  const double ratio = own.mean / other.mean;
  const std::string saved = fmt::format("{:.1f}", 100 * (1 - ratio));
  if (own.count < 2 || other.count < 2) return saved + " %";
  const double relative = std::hypot(own.deviation / own.mean, other.deviation / other.mean);
  return fmt::format("{} +- {:.1f} %", saved, 100 * ratio * relative);
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

double most_gflop(const std::vector<Group>& groups) {
  double most = 0;
  for (const Group& group : groups) {
    for (const Run& run : group.runs) most = std::max(most, total_cost(run).gflop);
  }
  return most;
}

}  // namespace

CostRows::CostRows(const std::vector<Group>& groups, std::optional<double> target) : groups_(groups), target_(target) {
  for (const Group& group : groups) {
    for (const Run& run : group.runs) stages_ = std::max(stages_, fusion_stages(run));
  }
  measures_.push_back({"time", "s", &Cost::seconds, 1});
  const double most = most_gflop(groups);
  if (most <= 0) return;
  const auto [unit, scale] = most < 1e4   ? std::pair("GFLOP", 1.0)
                             : most < 1e7 ? std::pair("TFLOP", 1e-3)
                                          : std::pair("PFLOP", 1e-6);
  measures_.push_back({"arithmetic", unit, &Cost::gflop, scale});
}

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
    if (!target_) continue;
    add(fmt::format("{} to loss {:g}", measure.name, *target_));
    add_saved(measure.name + " to loss");
  }
  return names;
}

// Against the first group of this method that ends at the same resolution; none where a run of either has no such cost:
// the mean of those that reached a target says nothing of the others.
std::string CostRows::saved(const Group& group, const std::string& method,
                            const std::function<Spread(const Group&)>& of) const {
  if (group.first().method == "baseline") return kNone;
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
    return g.first().method == method && g.first().resolutions.back() == group.first().resolutions.back();
  });
  if (found == groups_.end() || &*found == &group) return kNone;
  const Spread own = of(group), other = of(*found);
  const bool complete = own.count == group.runs.size() && other.count == found->runs.size();
  return complete ? saved_text(own, other) : kNone;
}

void CostRows::add_cells(const Group& group, const Measure& measure, std::vector<std::string>& cells) const {
  const auto spread_of = [&](const Group& runs, const auto& cost) {
    std::vector<double> values;
    for (const Run& run : runs.runs) {
      if (const std::optional<Cost> c = cost(run)) values.push_back(measure.scale * (*c).*measure.value);
    }
    return spread(values);
  };
  for (int s = 1; s <= stages_; ++s) {
    const Spread stage = spread_of(group, [&](const Run& run) { return std::optional(cost_of(run, s)); });
    cells.push_back(s <= fusion_stages(group.runs.front()) ? text(stage, 2) : kNone);
  }
  const auto after = [](const Run& run) { return std::optional(cost_of(run, 0)); };
  cells.push_back(group.first().method == "baseline" ? kNone : text(spread_of(group, after), 2));
  const auto total = [&](const Group& g) {
    return spread_of(g, [](const Run& run) { return std::optional(total_cost(run)); });
  };
  cells.push_back(text(total(group), 2));
  for (const char* method : {"baseline", "mrt"}) cells.push_back(saved(group, method, total));
  if (!target_) return;
  const auto reached = [&](const Group& g) {
    return spread_of(g, [&](const Run& run) { return cost_to(run, *target_); });
  };
  cells.push_back(reached_text(reached(group), group.runs.size()));
  for (const char* method : {"baseline", "mrt"}) cells.push_back(saved(group, method, reached));
}

std::vector<std::string> CostRows::cells(const Group& group) const {
  std::vector<std::string> cells;
  for (const Measure& measure : measures_) add_cells(group, measure, cells);
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
