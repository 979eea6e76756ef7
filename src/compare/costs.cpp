// What training cost, and what a method saved.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/compare/compare.hpp"

namespace mrmf {

// The saving at equal loss: what a baseline of the right length would have cost to end where a run of another method
// ended. Losses at the end of runs count, never one lucky epoch on the way.

namespace {

/// Where runs of one column end, on the average.
struct End {
  double cost = 0, loss = 0;
};

using Seeds = std::set<std::uint64_t>;

Seeds seeds_of(const RunSet& run_set) {
  Seeds seeds;
  for (const Run& run : run_set.runs) seeds.insert(run.result.seed);
  return seeds;
}

// Without the runs of one seed, if that is asked for. Every seed counts once, however many choices of axes it has.
End end_of(const RunSet& run_set, double Cost::*measure, std::optional<std::uint64_t> without) {
  std::map<std::uint64_t, std::pair<std::vector<double>, std::vector<double>>> by_seed;
  for (const Run& run : run_set.runs) {
    if (run.result.seed == without) continue;
    by_seed[run.result.seed].first.push_back(total_cost(run).*measure);
    by_seed[run.result.seed].second.push_back(run.result.validation_loss);
  }
  std::vector<double> costs, losses;
  for (const auto& [seed, values] : by_seed) {
    costs.push_back(spread(values.first).mean);
    losses.push_back(spread(values.second).mean);
  }
  return {spread(costs).mean, spread(losses).mean};
}

// From cheap to dear. A baseline that ends no lower than a cheaper one does not count: it is not tuned for its length.
std::vector<End> best_ends(std::vector<End> ends) {
  std::ranges::sort(ends, {}, [](const End& end) { return std::pair(end.cost, end.loss); });
  std::vector<End> best;
  for (const End& end : ends)
    if (std::isfinite(end.loss) && (best.empty() || end.loss < best.back().loss)) best.push_back(end);
  return best;
}

// Nothing where a run diverged. Between two baselines the loss is taken to fall linearly with the logarithm of the
// cost.
std::optional<EqualLoss> saved(const End& own, const std::vector<End>& best) {
  if (!std::isfinite(own.loss) || best.empty()) return {};
  const auto saving = [&](double cost) { return 1 - own.cost / cost; };
  if (own.loss > best.front().loss)
    return EqualLoss{.saved = saving(best.front().cost), .bound = EqualLoss::Bound::at_most};
  if (own.loss < best.back().loss)
    return EqualLoss{.saved = saving(best.back().cost), .bound = EqualLoss::Bound::at_least};
  const auto dearer = std::ranges::find_if(best, [&](const End& end) { return end.loss <= own.loss; });
  if (dearer == best.begin() || dearer->loss == own.loss) return EqualLoss{.saved = saving(dearer->cost)};
  const End& a = *std::prev(dearer);
  const double share = (a.loss - own.loss) / (a.loss - dearer->loss);
  return EqualLoss{.saved = saving(a.cost * std::pow(dearer->cost / a.cost, share))};
}

// RFC 4180, without line ends inside of cells.
std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      cells.emplace_back();
    else if (line[i] != '\r')
      cells.back() += line[i];
  }
  return cells;
}

template <class Number>
bool read_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && last == end;
}

// "[1]", "[2,1,1]".
bool read_factors(const std::string& text, Extent& factors) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
  std::vector<Index> read;
  std::istringstream words(text.substr(1, text.size() - 2));
  for (std::string word; std::getline(words, word, ',');)
    if (!read_number(word, read.emplace_back()) || read.size() > factors.size()) return false;
  std::ranges::copy(read, factors.end() - std::ssize(read));
  return true;
}

}  // namespace

std::optional<double> loss_of(const Run& run) {
  const double loss = run.result.validation_loss;
  return std::isnan(loss) ? std::nullopt : std::optional(loss);
}

std::optional<EqualLoss> saved_at_equal_loss(const RunSet& run_set, const std::vector<RunSet>& all_sets,
                                             double Cost::*measure) {
  if (run_set.first().method == MethodName::baseline && !run_set.first().automatic) return {};
  const Seeds seeds = seeds_of(run_set);
  std::vector<RunSet> baselines;
  for (const RunSet& other : all_sets)
    if (other.first().method == MethodName::baseline && !other.first().automatic &&
        other.first().resolutions.back() == run_set.first().resolutions.back())
      baselines.push_back(other);
  if (baselines.size() < 2) return {};
  // Like with like: where every baseline has the set's seeds, its others do not count.
  const bool paired =
      std::ranges::all_of(baselines, [&](const RunSet& b) { return std::ranges::includes(seeds_of(b), seeds); });
  if (paired)
    for (RunSet& baseline : baselines)
      std::erase_if(baseline.runs, [&](const Run& run) { return !seeds.contains(run.result.seed); });

  const auto without = [&](std::optional<std::uint64_t> seed) {
    std::vector<End> ends;
    for (const RunSet& baseline : baselines) ends.push_back(end_of(baseline, measure, seed));
    return saved(end_of(run_set, measure, seed), best_ends(ends));
  };
  std::optional<EqualLoss> all = without({});
  if (all) all->paired = paired;
  if (!all || !paired || seeds.size() < 2) return all;
  // The jackknife: one seed after the other is left out of all columns at once, so that what a seed does to all of them
  // cancels out.
  std::vector<double> left;
  for (const std::uint64_t seed : seeds) left.push_back(without(seed)->saved);
  all->error =
      spread(left).deviation * (static_cast<double>(seeds.size()) - 1) / std::sqrt(static_cast<double>(seeds.size()));
  return all;
}

std::vector<RunSet> read_baselines(const std::string& path) {
  std::istringstream lines(read_file(path));
  const auto damaged = [&](int number, const std::string& why) {
    return DataError(fmt::format("{}:{}: {}; give a file that mrmf compare --csv wrote", path, number, why));
  };
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = csv_cells(line);
  const auto column_of = [&](const std::string& name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) throw damaged(1, "no column '" + name + "'");
    return static_cast<std::size_t>(found - names.begin());
  };
  const std::size_t column = column_of("column"), method = column_of("method"), resolutions = column_of("resolutions"),
                    seed = column_of("seed"), loss = column_of("validation_loss"), gflop = column_of("gflop");
  std::map<std::string, RunSet> sets;
  for (int number = 2; std::getline(lines, line); ++number) {
    const std::vector<std::string> cells = csv_cells(line);
    if (cells.size() != names.size())
      throw damaged(number, fmt::format("{} cells, not {}", cells.size(), names.size()));
    if (cells[method] != to_string(MethodName::baseline)) continue;
    Run run;
    run.folder = path;
    run.result.validation_loss = kNoScore;  // an empty cell
    PhaseRecord phase;
    const bool read = read_number(cells[seed], run.result.seed) &&
                      (cells[loss].empty() || read_number(cells[loss], run.result.validation_loss)) &&
                      read_number(cells[gflop], phase.gflop) && read_factors(cells[resolutions], phase.resolution);
    if (!read) throw damaged(number, "not the figures of a run");
    run.result.resolutions = {phase.resolution};
    run.result.phases = {phase};
    sets[cells[column]].runs.push_back(std::move(run));
  }
  std::vector<RunSet> baselines;
  for (auto& [name, run_set] : sets) baselines.push_back(std::move(run_set));
  return baselines;
}

// The comparison's rows about the cost of training.

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
