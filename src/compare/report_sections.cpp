// What `mrmf report` says of its runs in words and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "io/files/input_file.hpp"
#include "src/compare/report.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

using Cells = std::vector<std::string>;
// That tell one set of runs from another, in a title.
constexpr std::size_t kMostSettings = 4;
constexpr std::size_t kRunsRow = 5;  // the row of a comparison's heading with the number of runs and seeds

std::string item(const std::string& words) { return "<li>" + html(typeset(words)) + "</li>\n"; }

std::string resolutions_of(const RunResult& r) {
  std::string text;
  for (const Extent& e : r.resolutions) text += (text.empty() ? "" : " ") + resolution_text(e, r.axes);
  return text;
}

// "51.6 % less", "4.1 % more"
std::string less_text(double saved, const std::string& what) {
  if (std::abs(saved) < 0.0005) return "as much " + what;  // and never "-0.0 %"
  return fmt::format("{:.1f} % {} {}", std::abs(100 * saved), saved >= 0 ? "less" : "more", what);
}

std::string against_baseline(const RunSet& run_set, const std::vector<RunSet>& sets) {
  const RunSet* baseline = reference_of(run_set, MethodName::baseline, sets);
  if (!baseline) return "";
  const auto saving = [](double own, double of) { return 1 - own / of; };
  const auto gflop = compared(
      run_set, *baseline, [](const Run& run) { return std::optional(total_cost(run).gflop); }, saving);
  const auto seconds = compared(
      run_set, *baseline, [](const Run& run) { return std::optional(total_cost(run).seconds); }, saving);
  const auto loss = compared(run_set, *baseline, loss_of, std::minus<>());
  if (!gflop || !seconds) return "";
  const bool counted = std::isfinite(gflop->spread.mean);  // records of early versions have no arithmetic
  const auto baselines =
      std::ranges::count_if(sets, [](const RunSet& g) { return g.first().method == MethodName::baseline; });
  const double more = loss ? loss->spread.mean : 0;
  const std::string key = different_losses(run_set, *baseline);
  const std::string other = key.empty() ? "" : "and losses that cannot be compared: " + key + " is another";
  return fmt::format(
      " Against {}: {}{}, {}.", baselines > 1 ? "the first baseline (" + set_title(*baseline) + ")" : "the baseline",
      counted ? less_text(gflop->spread.mean, "arithmetic") + ", " : "", less_text(seconds->spread.mean, "time"),
      !other.empty()                  ? other
      : loss && std::abs(more) < 5e-6 ? std::string("and the same loss")
      : loss ? fmt::format("and a loss {} by {:.5f}", more > 0 ? "higher" : "lower", std::abs(more))
             : "without losses to compare");
}

std::string metric_words(const RunSet& run_set) {
  const auto& metric = run_set.first().metric;
  if (!metric) return "";
  const Spread values =
      spread_over(run_set, [](const Run& r) { return r.result.metric ? r.result.metric->value : NAN; });
  return fmt::format(", {} {}", to_string(metric->metric), text(values, 4));
}

// The models that are used, where they are not those that training ended with.
std::string best_words(const RunSet& run_set) {
  const auto is_last = [](const Run& run) {
    return !run.result.best || run.result.best->epoch == run.result.best->epochs;
  };
  if (std::ranges::all_of(run_set.runs, is_last)) return "";
  const auto noted = [](const Run& run) {
    return run.result.best.value_or(
        ModelNote{.validation_loss = run.result.validation_loss, .metric = run.result.metric});
  };
  const std::size_t n = run_set.runs.size();
  const ModelNote first = noted(run_set.runs.front());
  std::string words =
      n > 1 ? std::string(" The models that are used are those of the best epochs")
            : fmt::format(" The model that is used is the best one, of epoch {} of {}", first.epoch, first.epochs);
  words +=
      ": validation loss " + text(spread_over(run_set, [&](const Run& run) { return noted(run).validation_loss; }), 5);
  const auto metric = [&](const Run& run) { return noted(run).metric ? noted(run).metric->value : NAN; };
  if (first.metric)
    words += fmt::format(", {} {}", to_string(first.metric->metric), text(spread_over(run_set, metric), 4));
  return words + ".";
}

// The phases of one run, as they went, with what the plan allowed.
std::string phase_table(const Run& run, const Plan& plan) {
  std::vector<Cells> rows;
  const std::vector<Phase> phases = plan.phases();
  for (const PhaseRecord& p : run.result.phases) {
    const auto planned = std::ranges::find_if(
        phases, [&](const Phase& phase) { return phase.stage == p.stage && phase.role == p.role; });
    const std::string most = planned == phases.end() ? "" : fmt::format(" of {}", planned->stop.epochs);
    rows.push_back({std::to_string(p.stage), to_string(p.role), resolution_text(p.resolution, p.axes),
                    fmt::format("{}{}", p.epochs, most), p.reason, std::to_string(p.last.batch),
                    fmt::format("{:.2f}", p.seconds), fmt::format("{:.2f}", p.gflop),
                    score_text(p.last.validation_loss)});
  }
  return html_table(
      {"stage", "model", "resolution", "epochs", "ended by", "batch", "seconds", "GFLOP", "validation loss"}, rows);
}

// Rows that are kept for the test.
std::string test_words(const SplitSettings& split) {
  if (split.test > 0) return fmt::format(", and {:g} % test", 100 * split.test);
  return split.test_roles.empty() ? "" : fmt::format(", and those with {} test", fmt::join(split.test_roles, " or "));
}

// What was trained on, and what validated.
std::string data_words(const DataConfig& data) {
  const auto names = [](const DatasetSpec& spec) {
    return fmt::format("{} with labels {}", fmt::join(spec.sample_names(), " and "), spec.labels_text());
  };
  const auto files = [](const DatasetSpec& spec) { return fmt::format("{}: ", fmt::join(spec.files, ", ")); };
  const std::string train = files(data.train) + names(data.train) + "; ";
  if (data.split.by == SplitBy::column)
    return train + "rows with " +
           (data.split.validation_roles.empty() ? "another number than 0"
                                                : fmt::format("{}", fmt::join(data.split.validation_roles, " or "))) +
           " in " + data.split.column + " validate" + test_words(data.split);
  if (data.split.by == SplitBy::arrays)
    return train +
           fmt::format("rows of {} train, those of {} validate", fmt::join(data.split.train_roles, " and "),
                       fmt::join(data.split.validation_roles, " and ")) +
           test_words(data.split);
  if (data.split.by == SplitBy::groups)
    return train +
           fmt::format("groups of {} with {:g} % of the rows validate", data.split.column,
                       100 * data.split.validation) +
           test_words(data.split);
  if (data.split.by == SplitBy::folds)
    return train +
           fmt::format("fold {} (from 0){} validates{}", data.split.fold,
                       data.split.folds > 0 ? fmt::format(" of {}", data.split.folds) : "",
                       data.split.column.empty() ? "" : ", by " + data.split.column) +
           test_words(data.split);
  if (data.split.by == SplitBy::rows)
    return train + fmt::format("{:g} % of the rows, at random, validate", 100 * data.split.validation) +
           test_words(data.split);
  if (data.validation.files == data.train.files) return train + names(data.validation) + " validate";
  if (names(data.validation) == names(data.train))
    return train + fmt::format("the same of {} validate", fmt::join(data.validation.files, ", "));
  return train + files(data.validation) + names(data.validation) + " validate";
}

std::string config_text(const Run& run) {
  return read_file((std::filesystem::path(run.folder) / "config.toml").string());
}

// A paragraph for each sentence or so. Warnings stand on top of the page; a line that was broken is whole again.
std::string notes_of(const ComparisonTable& table) {
  std::vector<std::string> paragraphs;
  std::istringstream lines(table.settings + table.notes + table.conclusions);
  bool whole = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("warning: ")) continue;
    if (whole) paragraphs.emplace_back();
    paragraphs.back() += (whole ? "" : " ") + line;
    whole = line.back() == '.' || line.front() == '(';
  }
  std::string out;
  for (const std::string& paragraph : paragraphs)
    out += "<p class=\"small dim\">" + html(typeset(paragraph)) + "</p>\n";
  return out;
}

// Distinct facts with the folders of their runs.
std::vector<std::pair<Cells, std::string>> distinct(const std::vector<RunSet>& sets) {
  std::vector<std::pair<Cells, std::string>> found;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) {
      const Machine& m = run.result.machine;
      const Versions& v = run.result.versions;
      const Cells facts{m.host,
                        m.processor,
                        fmt::format("{} cores", m.cores),
                        fmt::format("{:.1f} GiB", m.memory_gib),
                        fmt::format("{} rank{}", run.result.ranks, run.result.ranks == 1 ? "" : "s"),
                        fmt::format("{} ({})", v.mrmf, v.git),
                        v.backend,
                        v.compiler,
                        v.hdf5,
                        v.mpi};
      const auto same = std::ranges::find(found, facts, [](const auto& entry) { return entry.first; });
      if (same == found.end())
        found.emplace_back(facts, run.folder);
      else
        same->second += ", " + run.folder;
    }
  return found;
}

}  // namespace

std::string different_losses(const RunSet& a, const RunSet& b) {
  const Settings &mine = a.runs.front().settings, &theirs = b.runs.front().settings;
  for (const char* key :
       {"training.loss", "training.class_weights", "data.normalise.labels", "data.files", "data.train.labels",
        "data.validation.labels", "data.split.by", "data.split.column", "data.split.validation", "data.split.seed"}) {
    const auto own = mine.find(key), other = theirs.find(key);
    const std::string one = own == mine.end() ? "" : own->second, two = other == theirs.end() ? "" : other->second;
    if (one != two) return key;
  }
  return "";
}

std::string set_title(const RunSet& run_set) {
  const RunResult& r = run_set.first();
  std::string title = method_name(r) + ", " + resolutions_of(r);
  if (r.method == MethodName::mrmf) title += ", top " + to_string(r.top);
  if (r.method == MethodName::mrmf && fresh_bottom(run_set.runs.front())) title += ", bottom fresh";
  constexpr std::size_t longest = 40;
  std::size_t told = 0;
  for (const auto& [key, value] : run_set.labels) {
    // Runs of other data differ in nearly everything: the configurations below say in what.
    if (told++ == kMostSettings) return title + fmt::format(" and {} more", run_set.labels.size() - kMostSettings);
    title += ", " + key.substr(key.find('.') + 1) + " = " +
             (value.size() <= longest ? value : value.substr(0, longest) + "...");
  }
  return title;
}

std::string summary_section(const std::vector<RunSet>& sets) {
  std::string items;
  for (const RunSet& run_set : sets) {
    const Spread loss = spread_over(run_set, [](const Run& r) { return r.result.validation_loss; });
    const Spread seconds = spread_over(run_set, [](const Run& r) { return total_cost(r).seconds; });
    const Spread gflop = spread_over(run_set, [](const Run& r) { return total_cost(r).gflop; });
    const std::size_t n = run_set.runs.size();
    items += item(fmt::format("{}: validation loss {}{} after {} s and {} GFLOP of training{}.{}{}", set_title(run_set),
                              text(loss, 5), metric_words(run_set), text(seconds, 2), text(gflop, 2),
                              n > 1 ? fmt::format(" (means \u00B1 standard deviations of {} runs)", n) : "",
                              best_words(run_set), against_baseline(run_set, sets)));
  }
  std::string out = "<ul>\n" + items + "</ul>\n";
  for (const std::string& line : warnings(sets)) out += "<p class=\"warning\">Take care: " + html(line) + ".</p>\n";
  return out;
}

std::string plan_section(const std::vector<RunSet>& sets) {
  std::string out;
  for (const RunSet& run_set : sets) {
    const Run& run = run_set.runs.front();
    const std::string path = (std::filesystem::path(run.folder) / "config.toml").string();
    const Config config = read_config(path, {}, Writer::run);
    const Plan plan = make_plan(config);
    std::string folders;
    for (const Run& each : run_set.runs) folders += (folders.empty() ? "" : ", ") + each.folder;
    out += "<h3>" + html(set_title(run_set)) + "</h3>\n<ul>\n" +
           item("network: " + (run.result.model == "custom" ? "layers of its own, in the configuration below"
                                                            : "the preset " + run.result.model)) +
           item("data: " + data_words(config.data)) +
           item(fmt::format("training samples: {} in an epoch", run.epochs.back().samples)) + item("runs: " + folders) +
           "</ul>\n<pre>" + html(to_text(plan)) + "</pre>\n" +
           (run_set.runs.size() > 1 ? "<p>How it went in " + html(run.folder) + ":</p>\n" : "") +
           phase_table(run, plan);
  }
  return out;
}

std::string savings_section(const std::vector<RunSet>& sets, const CompareOptions& options) {
  const ComparisonTable table = comparison_table(sets, options);
  Cells header{""};
  for (std::size_t c = 1; c < table.columns.size(); ++c) header.push_back(table.columns[c].front());
  std::vector<Cells> rows;
  for (std::size_t row = 1; row < table.columns.front().size(); ++row) {
    Cells cells;
    for (const Cells& column : table.columns) cells.push_back(column[row]);
    if (row == 1) cells.front() = "resolutions";
    if (row == kRunsRow) cells.front() = "runs";
    if (std::ranges::any_of(cells.begin() + 1, cells.end(), [](const std::string& cell) { return !cell.empty(); }))
      rows.push_back(std::move(cells));
  }
  const std::string out = "<p>A column for each method. The same table is printed by <code>mrmf compare</code>.</p>\n" +
                          html_table(header, rows);
  return out + notes_of(table);
}

std::string figures_section(const std::vector<RunSet>& sets) {
  const bool metric = std::ranges::any_of(sets, [](const RunSet& g) {
    return std::ranges::any_of(g.runs, [](const Run& run) { return run.result.metric.has_value(); });
  });
  Cells header{"run", "method", "seed", "validation loss", "training loss"};
  if (metric) header.emplace_back("validation metric");
  for (const char* name : {"target", "epochs of all models", "seconds", "GFLOP"}) header.emplace_back(name);
  std::vector<Cells> rows;
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs) {
      const RunResult& r = run.result;
      Cells cells{run.folder, method_name(r), std::to_string(r.seed), score_text(r.validation_loss),
                  score_text(run.epochs.back().train_loss)};
      if (metric)
        cells.push_back(r.metric ? score_text(r.metric->value, 4) + " (" + to_string(r.metric->metric) + ")" : "-");
      cells.emplace_back(!r.target && !r.metric_target ? "none set" : r.target_reached ? "reached" : "NOT reached");
      cells.push_back(std::to_string(run.epochs.size()));
      cells.push_back(fmt::format("{:.2f}", total_cost(run).seconds));
      cells.push_back(fmt::format("{:.2f}", total_cost(run).gflop));
      rows.push_back(std::move(cells));
    }
  std::string out = html_table(header, rows);
  const Run* plain = nullptr;  // a run without a metric, so one of numbers: classes always have one
  for (const RunSet& run_set : sets)
    for (const Run& run : run_set.runs)
      if (!plain && !run.result.metric) plain = &run;
  if (plain)
    out += "<p class=\"small\">Losses are in the network's own units. <code>mrmf evaluate " + html(plain->folder) +
           "</code> prints the mean absolute error and R\u00B2 of each label, in the labels' units.</p>\n";
  return out;
}

std::string configuration_section(const std::vector<RunSet>& sets) {
  std::string out =
      "<p>The whole configuration of the first run of each method. With it, <code>mrmf train</code> repeats the "
      "run.</p>\n";
  for (const RunSet& run_set : sets) {
    const Run& run = run_set.runs.front();
    out += "<details><summary>" + html(set_title(run_set) + " (" + run.folder + "/config.toml)") + "</summary>\n<pre>" +
           html(config_text(run)) + "</pre></details>\n";
  }
  return out;
}

std::string machine_section(const std::vector<RunSet>& sets) {
  const Cells names{"host", "processor", "cores", "memory", "ranks", "mrmf", "backend", "compiler", "HDF5", "MPI"};
  const auto found = distinct(sets);
  Cells header{""};
  for (const auto& [facts, folders] : found) header.push_back(found.size() == 1 ? "all runs" : folders);
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Cells row{names[i]};
    for (const auto& [facts, folders] : found) row.push_back(facts[i]);
    rows.push_back(std::move(row));
  }
  return html_table(header, rows);
}

}  // namespace mrmf
