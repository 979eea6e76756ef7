#include "src/compare/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path, const std::string& hint) {
  try {
    return read_file(path.string());
  } catch (const DataError& error) {
    throw DataError(std::string(error.what()) + "; " + hint);
  }
}

std::vector<EpochRecord> read_epochs(const fs::path& path) {
  std::istringstream lines(slurp(path, "is the run folder complete?"));
  std::vector<EpochRecord> epochs;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    epochs.push_back(epoch_from_json(line, path.string() + ":" + std::to_string(number)));
  }
  if (epochs.empty()) throw DataError(path.string() + ": holds no epochs; is the run folder complete?");
  return epochs;
}

// Where mrmf tune keeps its trials (src/method/tune.cpp), and no run was trained.
bool holds_trials(const fs::path& folder) {
  static const std::regex trial("trial-[0-9a-f]{16}\\.json");
  std::error_code none;
  if (fs::exists(folder / "config.toml", none)) return false;
  return std::ranges::any_of(fs::directory_iterator(folder, none), [](const fs::directory_entry& entry) {
    return std::regex_match(entry.path().filename().string(), trial);
  });
}

int order(const RunResult& result) {
  const std::vector<MethodName> methods{MethodName::baseline, MethodName::mrt, MethodName::progressive,
                                        MethodName::mrmf, MethodName::automatic};
  const MethodName method = result.automatic ? MethodName::automatic : result.method;
  return static_cast<int>(std::ranges::find(methods, method) - methods.begin());
}

bool before(const RunSet& a, const RunSet& b) {
  const auto rank = [](const RunSet& g) {
    const RunResult& r = g.first();
    return std::tuple(order(r), g.first().resolutions.size(), g.first().top);
  };
  return rank(a) < rank(b);
}

// The paper averages its half resolution over the three axes of a cube: the choice of axis makes no column of its own.
std::vector<Extent> whichever_axis(std::vector<Extent> resolutions) {
  for (Extent& factors : resolutions) std::sort(factors.begin(), factors.end());
  return resolutions;
}

bool same_column(const Run& a, const Run& b) {
  return a.result.method == b.result.method && a.result.automatic == b.result.automatic &&
         whichever_axis(a.result.resolutions) == whichever_axis(b.result.resolutions) && a.result.top == b.result.top &&
         fresh_bottom(a) == fresh_bottom(b);
}

std::string value_of(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "unset" : found->second;
}

// Labels each set with the settings that distinguish it from sets that would otherwise look alike.
void label_settings(std::vector<RunSet>& sets) {
  for (RunSet& run_set : sets) {
    const Settings& own = run_set.runs.front().settings;
    for (const RunSet& other : sets) {
      if (&other == &run_set || !same_column(other.runs.front(), run_set.runs.front())) continue;
      Settings all = own;
      const Settings& theirs = other.runs.front().settings;
      all.insert(theirs.begin(), theirs.end());
      for (const auto& [key, value] : all) {
        if (value_of(own, key) != value_of(theirs, key)) run_set.labels[key] = value_of(own, key);
      }
    }
  }
}

using Fact = std::function<std::string(const RunResult&)>;

// Adds "the runs differ in <what>: A (2 runs) | B (1 run)" if they do.
void differing(const std::vector<RunSet>& sets, const std::string& what, const Fact& fact,
               std::vector<std::string>& lines) {
  std::map<std::string, int> counts;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) ++counts[fact(run.result)];
  if (counts.size() < 2) return;
  std::string values;
  for (const auto& [value, count] : counts) {
    values += fmt::format("{}{} ({} run{})", values.empty() ? "" : " | ", value, count, count == 1 ? "" : "s");
  }
  lines.push_back("the runs differ in " + what + ": " + values);
}

// "data.h5: x, y; x, y" names the same data sets for training and validation: once is enough.
std::string data_of(const RunResult& r) {
  const std::size_t at = r.data.rfind("; ");
  if (at == std::string::npos) return r.data;
  std::string train = r.data.substr(0, at);
  return train.ends_with(": " + r.data.substr(at + 2)) ? train : r.data;
}

std::string target_of(const RunResult& r) {
  if (r.metric_target) return fmt::format("{} {:g}", to_string(r.metric_target->metric), r.metric_target->least);
  return r.target ? fmt::format("{:g}", *r.target) : "none";
}

std::string machine_of(const RunResult& r) {
  return fmt::format("{} ({}, {} cores)", r.machine.host, r.machine.processor, r.machine.cores);
}

void seeds(const std::vector<RunSet>& sets, std::vector<std::string>& lines) {
  std::set<std::string> of_columns;
  for (const RunSet& run_set : sets) {
    std::map<std::tuple<std::uint64_t, int, std::vector<Extent>>, std::string> seen;
    std::set<std::uint64_t> numbers;
    for (const Run& run : run_set.runs) {
      const auto [entry, fresh] =
          seen.emplace(std::tuple(run.result.seed, run.fold, run.result.resolutions), run.folder);
      numbers.insert(run.result.seed);
      if (!fresh)
        lines.push_back(fmt::format("{} and {} have the same seed {}: they are no independent repetitions",
                                    entry->second, run.folder, run.result.seed));
    }
    of_columns.insert(fmt::format("{{{}}}", fmt::join(numbers, ", ")));
  }
  if (of_columns.size() > 1)
    lines.push_back(fmt::format("the columns differ in seeds: {}", fmt::join(of_columns, " | ")));
}

std::string missed_text(const std::string& score, double value, const char* than, double target) {
  if (std::isnan(value)) return " did NOT reach its target: it has no " + score;
  return fmt::format(" did NOT reach its target: {} {} {} {:g}", score, score_text(value), than, target);
}

void targets(const std::vector<RunSet>& sets, std::vector<std::string>& lines) {
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) {
      const RunResult& r = run.result;
      if (r.target_reached) continue;
      if (r.metric_target && r.metric)
        lines.push_back(run.folder + missed_text("validation " + to_string(r.metric->metric), r.metric->value,
                                                 falls(r.metric->metric.kind) ? ">" : "<", r.metric_target->least));
      if (r.target && !r.metric_target)
        lines.push_back(run.folder + missed_text("validation loss", r.validation_loss, ">", *r.target));
    }
}

}  // namespace

std::string method_name(const RunResult& r) {
  const std::size_t fusions = r.resolutions.size() - 1;
  if (r.automatic) return to_string(MethodName::automatic) + (r.method == MethodName::baseline ? " (baseline)" : "");
  if (r.method == MethodName::mrt) return "MRT";
  if (r.method == MethodName::mrmf) return fmt::format("MRMF, {} fusion{}", fusions, fusions == 1 ? "" : "s");
  return to_string(r.method);
}

std::vector<std::string> leave_out_trials(std::vector<std::string>& folders) {
  std::vector<std::string> runs, lines;
  for (const std::string& folder : folders) (holds_trials(folder) ? lines : runs).push_back(folder);
  if (runs.empty()) return {};
  for (std::string& line : lines) line += ": holds the trials of mrmf tune, not a run; left out";
  folders = std::move(runs);
  return lines;
}

bool fresh_bottom(const Run& run) { return value_of(run.settings, "method.bottom") == "\"fresh\""; }

Run read_run(const std::string& folder) {
  const fs::path path = folder;
  if (!fs::is_directory(path)) throw DataError(folder + ": there is no such run folder");
  if (holds_trials(folder))
    throw DataError(folder + ": holds the trials of mrmf tune, not a run; leave it out, or train its best.toml");
  if (!is_there((path / "result.json").string())) {
    throw DataError(folder + ": no finished run here (no result.json); let `mrmf train` finish it, or leave it out");
  }
  Run run;
  run.folder = folder;
  const std::string result = (path / "result.json").string();
  run.result = result_from_json(slurp(result, "check its permissions"), result);
  run.epochs = read_epochs(path / "epochs.jsonl");
  const std::string toml = slurp(path / "config.toml", "is the run folder complete?");
  run.settings = read_settings(toml);
  run.fold = fold_of(toml);
  return run;
}

std::vector<RunSet> run_sets(const std::vector<std::string>& folders) {
  std::vector<RunSet> sets;
  for (const std::string& folder : with_folds(folders)) {
    Run run = read_run(folder);
    const auto same = std::find_if(sets.begin(), sets.end(), [&](const RunSet& g) {
      return same_column(g.runs.front(), run) && g.runs.front().settings == run.settings;
    });
    if (same != sets.end()) {
      same->runs.push_back(std::move(run));
    } else {
      sets.push_back({{std::move(run)}, {}});
    }
  }
  std::stable_sort(sets.begin(), sets.end(), before);
  label_settings(sets);
  return sets;
}

Spread spread(const std::vector<double>& values) {
  Spread s;
  s.count = values.size();
  const auto n = static_cast<double>(values.size());
  for (const double v : values) s.mean += v / n;
  for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = values.size() > 1 ? std::sqrt(s.deviation / (n - 1)) : 0;
  return s;
}

double Spread::error() const { return count > 0 ? deviation / std::sqrt(static_cast<double>(count)) : 0; }

std::optional<Comparison> compared(const RunSet& own, const RunSet& other, const Figure& figure,
                                   const std::function<double(double, double)>& compare) {
  const auto by_seed = [&](const RunSet& run_set) {
    std::map<std::pair<std::uint64_t, int>, std::vector<double>> values;
    for (const Run& run : run_set.runs)
      if (const std::optional<double> value = figure(run)) values[{run.result.seed, run.fold}].push_back(*value);
    return values;
  };
  const auto count = [](const auto& values) {
    std::size_t n = 0;
    for (const auto& [seed, list] : values) n += list.size();
    return n;
  };
  const auto mine = by_seed(own), theirs = by_seed(other);
  if (count(mine) != own.runs.size() || count(theirs) != other.runs.size()) return std::nullopt;
  const bool paired = std::ranges::equal(
      mine, theirs, {}, [](const auto& entry) { return entry.first; }, [](const auto& entry) { return entry.first; });
  std::vector<double> values;
  if (paired) {
    for (const auto& [seed, list] : mine) values.push_back(compare(spread(list).mean, spread(theirs.at(seed)).mean));
  } else {
    const auto mean = [](const auto& entries) {
      std::vector<double> all;
      for (const auto& [seed, list] : entries) all.insert(all.end(), list.begin(), list.end());
      return spread(all).mean;
    };
    values.push_back(compare(mean(mine), mean(theirs)));
  }
  return Comparison{spread(values), paired};
}

const RunSet* reference_of(const RunSet& run_set, MethodName method, const std::vector<RunSet>& sets) {
  if (run_set.first().method == MethodName::baseline) return nullptr;
  const auto found = std::ranges::find_if(sets, [&](const RunSet& g) {
    return g.first().method == method && !g.first().automatic &&
           g.first().resolutions.back() == run_set.first().resolutions.back();
  });
  return found == sets.end() || &*found == &run_set ? nullptr : &*found;
}

std::string text(const Spread& s, int digits) {
  if (s.count == 0 || std::isnan(s.mean)) return "-";
  const std::string mean = score_text(s.mean, digits);
  return s.count == 1 ? mean : fmt::format("{} +- {}", mean, score_text(s.deviation, digits));
}

bool after_fusion(Role role) { return role == Role::baseline || role == Role::finetune; }

double epochs_of(const Run& run, Role role) {
  double epochs = 0;
  for (const PhaseRecord& phase : run.result.phases) epochs += phase.role == role ? phase.epochs : 0;
  return epochs;
}

double epochs_after(const Run& run) { return epochs_of(run, Role::baseline) + epochs_of(run, Role::finetune); }

// Two teams on part of the ranks each trained at once, so the longer time counts. In runs of an earlier version, a team
// that the other joined ended on all ranks.
Cost cost_of(const Run& run, int stage) {
  Cost cost;
  for (const PhaseRecord& s : run.result.phases) {
    const bool counts = stage == 0 ? after_fusion(s.role) : !after_fusion(s.role) && s.stage == stage;
    if (!counts) continue;
    const bool team = s.last.ranks < run.result.ranks || s.joined;
    cost.seconds = team ? std::max(cost.seconds, s.seconds) : cost.seconds + s.seconds;
    cost.gflop += s.gflop;
  }
  return cost;
}

std::vector<StageTime> stage_times(const Run& run) {
  std::vector<StageTime> times;
  const int fusions = fusion_stages(run);
  for (int i = 1; i <= fusions + 1; ++i) {
    StageTime sum{.stage = i > fusions ? 0 : i};
    for (const PhaseRecord& p : run.result.phases) {
      if (sum.stage == 0 ? !after_fusion(p.role) : after_fusion(p.role) || p.stage != sum.stage) continue;
      const TimeShares& split = p.time_shares;
      const double parts = split.compute.mean + split.communication.mean + split.io.mean;
      const StageTime own{sum.stage, split.compute.mean, split.communication.mean, split.io.mean,
                          std::max(0.0, p.seconds - parts)};
      if (p.last.ranks < run.result.ranks || p.joined) {
        if (own.seconds() > sum.seconds()) sum = own;
        continue;
      }
      sum.compute += own.compute, sum.communication += own.communication, sum.io += own.io, sum.other += own.other;
    }
    times.push_back(sum);
  }
  return times;
}

Cost total_cost(const Run& run) {
  Cost cost{.seconds = run.result.total_seconds};
  for (const PhaseRecord& s : run.result.phases) cost.gflop += s.gflop;
  return cost;
}

int fusion_stages(const Run& run) {
  int stages = 0;
  for (const PhaseRecord& s : run.result.phases) stages = after_fusion(s.role) ? stages : std::max(stages, s.stage);
  return stages;
}

std::optional<Cost> cost_to(const Run& run, double target) {
  double gflop = 0;
  for (const EpochRecord& epoch : run.epochs) {
    gflop += epoch.gflop;
    if (after_fusion(epoch.role) && epoch.validation_loss <= target) return Cost{epoch.total_seconds, gflop};
  }
  return std::nullopt;
}

std::optional<double> equivalent_epochs(const Run& run) {
  const double full = run.result.full_gflop.value_or(run.epochs.back().gflop - run.epochs.back().statistics_gflop);
  return full > 0 ? std::optional(total_cost(run).gflop / full) : std::nullopt;
}

std::vector<std::string> warnings(const std::vector<RunSet>& sets) {
  std::vector<std::string> lines;
  targets(sets, lines);
  differing(sets, "target", target_of, lines);
  differing(sets, "data", data_of, lines);
  differing(
      sets, "network", [](const RunResult& r) { return r.model; }, lines);
  // A run may have been given fewer cores of one machine: that is no other machine.
  std::set<std::pair<std::string, std::string>> machines;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) machines.emplace(run.result.machine.host, run.result.machine.processor);
  if (machines.size() > 1) differing(sets, "machine", machine_of, lines);
  differing(
      sets, "ranks", [](const RunResult& r) { return std::to_string(r.ranks); }, lines);
  differing(
      sets, "version of mrmf", [](const RunResult& r) { return r.versions.git; }, lines);
  differing(
      sets, "backend", [](const RunResult& r) { return r.versions.backend; }, lines);
  seeds(sets, lines);
  return lines;
}

namespace {

// What was measured over the training rows of one fold differs from fold to fold.
void forget_measured(Settings& settings) {
  std::erase_if(settings, [](const auto& entry) {
    return entry.first == "training.class_weights" || entry.first == "data.fill" ||
           entry.first.starts_with("data.normalise.sample_") || entry.first.starts_with("data.normalise.label_");
  });
}

bool by_folds(const Settings& settings) {
  const auto by = settings.find("data.split.by");
  return by != settings.end() && by->second == "\"folds\"";
}

// mrmf writes the effective configuration as [section] and "key = value" lines; lists take several lines.
Settings all_settings(const std::string& toml) {
  Settings settings;
  std::istringstream lines(toml);
  std::string line, section, key;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    const std::size_t equals = line.find(" = ");
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = line.substr(1, line.size() - 2);
    } else if (line.front() != ' ' && equals != std::string::npos) {
      key = section + "." + line.substr(0, equals);
      settings[key] = line.substr(equals + 3);
    } else {
      settings[key] += line;
    }
  }
  return with_todays_words(settings);
}

}  // namespace

Settings read_settings(const std::string& toml) {
  Settings settings = all_settings(toml);
  std::erase_if(settings, [&](const auto& entry) {
    return entry.first == "training.seed" || entry.first == "method.resolutions" || entry.first == "method.join" ||
           entry.first == "data.split.fold" || entry.first == "data.channels" ||
           entry.first == "method.detail" ||          // how "auto" came to the rest
           entry.first.starts_with("data.units.") ||  // what the data say, which runs of earlier versions lack
           entry.first.starts_with("run.");
  });
  if (by_folds(settings)) forget_measured(settings);
  return settings;
}

int fold_of(const std::string& toml) {
  static const std::regex line("(?:^|\n)split\\.fold = ([0-9]{1,6})");
  std::smatch found;
  if (!by_folds(all_settings(toml))) return 0;
  return std::regex_search(toml, found, line) ? std::stoi(found[1]) : 0;
}

}  // namespace mrmf
