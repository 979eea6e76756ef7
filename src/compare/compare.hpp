// Finished runs side by side: what `mrmf compare`, `mrmf plot` and `mrmf report` call, and the runs, means over seeds
// and costs that they are made of.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "src/run/model_report.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {

// `mrmf compare` and `mrmf plot`: a table of finished runs, as the paper's Tables 5 and 7, and their curves, drawn by a
// script (jobs/plots/plot.py).

struct CompareOptions {
  std::optional<double> target{};  ///< also prints the cost until the validation loss first reached this
  std::string baselines{};  ///< comma-separated values as compare_csv() writes them: their baselines are the curve
  std::size_t width = 0;    ///< characters of a line: further columns go below; 0: no limit
};

/// Characters in a line of standard output: COLUMNS, else the terminal's, else 120, so that a file looks the same
/// wherever it is made.
std::size_t output_width();

/// Takes out the folders where `mrmf tune` keeps its trials, which are no runs, where there are others; a line for
/// each.
std::vector<std::string> leave_out_trials(std::vector<std::string>& folders);

/// The comparison as a table with a column per method, schedule and settings. Shows the mean, sample standard deviation
/// and number over the seeds, and savings and loss differences seed by seed with their standard error. The paper's own
/// figures stand beside the columns that have some, and each reason for an unfair comparison has a line. DataError for
/// a folder without a finished run, or with a damaged one: a table without it would mislead.
std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options);
/// The runs behind that table as comma-separated values, one line each, under a line of names.
std::string compare_csv(const std::vector<std::string>& folders, const CompareOptions& options);
/// The columns of that table with their runs, figures and warnings.
std::string compare_json(const std::vector<std::string>& folders, const CompareOptions& options);

struct ReportOptions {
  std::vector<std::string> runs;
  CompareOptions compare;             ///< `width` does not matter
  std::string title;                  ///< "Training report" unless given
  std::vector<ModelReport> models{};  ///< the models of runs, described
};

/// The folders whose models a report describes: the first run of every method, and every fold's.
std::vector<std::string> described_runs(const std::vector<std::string>& folders);
/// One HTML page about finished runs, for a reader who does not know mrmf: what was run, curves, times, costs and
/// savings, configuration, machine. It refers to nothing outside of itself. DataError as compare_table().
std::string report_page(const ReportOptions& options);

/// What a plot shows: losses over what training cost; where the time went; predicted against true labels; how often
/// each class was taken for each; the validation metric, or the training loss, in place of the validation loss.
enum class PlotKind { loss, times, labels, confusion, metric, training };

struct PlotOptions {
  std::vector<std::string> inputs;  ///< run folders; for labels and confusion a file of mrmf predict
  OutputOption output;              ///< .png or .svg; without either: both
  PlotKind kind = PlotKind::loss;
  std::string x = "seconds";        ///< loss: the horizontal axis: seconds | gflop | epochs
  bool mean = false;                ///< loss: one line per method: the mean over its seeds, and their range
  std::vector<std::string> labels;  ///< labels, confusion: FILE:DATASET, in the order of their rows
};
/// The pictures that an output names: itself where it ends in .png or .svg, both where it has no such end. ConfigError
/// when one cannot be written, or when its name ends in something else.
std::vector<OutputOption> pictures_of(const OutputOption& output);

/// Runs a drawing script of jobs/ with these words and the place to draw to, for each picture. None is there unless all
/// could be drawn. The pictures' names. ConfigError as below.
std::vector<std::string> draw_plot(const std::string& script, const std::vector<std::string>& words,
                                   const OutputOption& output);

/// Draws; the pictures' names. ConfigError when Python or its matplotlib is missing, or options do not go together;
/// DataError when the script refuses the files.
std::vector<std::string> draw(const PlotOptions& options);

// Run folders read back and grouped, their figures and costs, and the paper's beside them. Private to src/compare.

/// Settings of the effective configuration, "section.key" to value. Leaves out what may differ between repetitions of a
/// run (the seed, [run]), and the resolutions, which results hold.
using Settings = std::map<std::string, std::string>;

struct Run {
  std::string folder;
  RunResult result;
  std::vector<EpochRecord> epochs;
  Settings settings;
  int fold = 0;  ///< the one that validated, where the split has folds
};

/// Runs that differ only in the seed, in the fold that validates, or in the axis of the samples that a resolution
/// averages.
struct RunSet {
  std::vector<Run> runs;
  Settings labels;  ///< the settings, with this set's values, that distinguish sets of the same method
  const RunResult& first() const { return runs.front().result; }
};

/// Whether no coarse model was trained: method.bottom = "fresh".
bool fresh_bottom(const Run& run);

Run read_run(const std::string& folder);
/// A folder that holds the runs of folds stands for all of them. Groups in the order baseline, MRT, progressive, MRMF
/// by number of fusions.
std::vector<RunSet> run_sets(const std::vector<std::string>& folders);
/// One line for each reason why the comparison is unfair; empty when there is none.
std::vector<std::string> warnings(const std::vector<RunSet>& sets);

/// "MRMF, 2 fusions"
std::string method_name(const RunResult& result);

/// Mean and sample standard deviation.
struct Spread {
  double mean = 0, deviation = 0;
  std::size_t count = 0;
  double error() const;  ///< standard error of the mean
};
Spread spread(const std::vector<double>& values);
/// The spread of a figure over the runs of a set.
template <class Figure>
Spread spread_over(const RunSet& run_set, const Figure& figure) {
  std::vector<double> values;
  for (const Run& run : run_set.runs) values.push_back(figure(run));
  return spread(values);
}
/// Stands in tables where there is no figure.
inline constexpr const char* kNone = "-";
/// "35", "35.5 +- 0.7": with the spread if there are several values. "-" where there are none, or not of all runs.
std::string text(const Spread& spread, int digits);

/// A figure of a run, if it has one.
using Figure = std::function<std::optional<double>(const Run&)>;
/// A set's figure compared with another's: per seed when both have the same seeds, otherwise by their means.
struct Comparison {
  Spread spread;        ///< spread of a single value when not paired
  bool paired = false;  ///< seed by seed; a seed's runs that average other axes count by their mean
};
/// `compare(own, other)` over both sets. Nothing when a run of either lacks the figure: the mean of those that
/// reached a target says nothing about the others.
std::optional<Comparison> compared(const RunSet& own, const RunSet& other, const Figure& figure,
                                   const std::function<double(double, double)>& compare);
/// The first set of this method that ends at the set's last resolution, unless that is the set itself. Null also
/// for a baseline, with which the others are compared.
const RunSet* reference_of(const RunSet& run_set, MethodName method, const std::vector<RunSet>& sets);

/// The validation loss that a run ends with, if it has one.
std::optional<double> loss_of(const Run& run);

bool after_fusion(Role role);  ///< baseline and finetune
double epochs_of(const Run& run, Role role);
double epochs_after(const Run& run);
/// Cost of training: seconds on the machine it ran on, and arithmetic, which other work on that machine does not
/// change.
struct Cost {
  double seconds = 0, gflop = 0;
};
/// The cost of fusion stage `stage` (1-based, both models); for stage 0, of everything after fusion.
Cost cost_of(const Run& run, int stage);
Cost total_cost(const Run& run);
int fusion_stages(const Run& run);
/// The cost up to the end of the first epoch after fusion with a validation loss of at most `target`.
std::optional<Cost> cost_to(const Run& run, double target);
/// Arithmetic of all epochs in units of one epoch at the run's last resolution; nothing for records without arithmetic.
std::optional<double> equivalent_epochs(const Run& run);

/// What a method saved at the loss that it ended with, against baselines of several lengths.
struct EqualLoss {
  double saved = 0;               ///< share of the cost of the baseline that would end at the same loss
  std::optional<double> error{};  ///< standard error, where all columns have the same seeds: each in turn is left out
  enum class Bound { none, at_least, at_most };
  Bound bound = Bound::none;  ///< the loss is below that of every baseline, or above
  bool paired = true;         ///< every baseline has all seeds of the set
};
/// Between baselines that ended lower the longer they were, the cost is interpolated; those that are no better than a
/// cheaper one do not count, and those of other seeds do not where each baseline has the set's. `all`: only baselines
/// that end at the set's last resolution are taken. Nothing for a baseline, and where there are fewer than two.
std::optional<EqualLoss> saved_at_equal_loss(const RunSet& run_set, const std::vector<RunSet>& all,
                                             double Cost::*measure);
/// The baselines in what compare_csv() wrote, a set per column: arithmetic, loss and seeds alone. DataError: it is no
/// such text.
std::vector<RunSet> read_baselines(const std::string& path);

/// The paper's figures for the Neuron Inverter, printed beside our runs: one column of Tables 5 and 7
/// ("Multi-Resolution Model Fusion", section 4.2; 16 A100, seconds on Perlmutter). Negative: the paper gives no figure.
struct PaperColumn {
  double validation_loss = -1;
  int coarse_epochs = -1, dense_epochs = -1, after_epochs = -1;
  std::array<double, 2> stage_seconds{-1, -1};
  double finetune_seconds = -1, total_seconds = -1;
  bool other_run = false;  ///< the seconds per stage are from Table 7, another run than Table 5's
};

/// The paper's column that matches this run, or null: another network, another top, more fusions.
const PaperColumn* paper_figures(const RunResult& result);
const PaperColumn& paper_baseline();
const PaperColumn& paper_mrt();

/// The comparison's rows about the cost of training, once in seconds and once in arithmetic.
class CostRows {
 public:
  /// `sets` must outlive this. With a target, also the cost of reaching that validation loss.
  CostRows(const std::vector<RunSet>& sets, const CompareOptions& options);

  std::vector<std::string> names() const;
  bool equal_loss() const;                                         ///< there are rows for it
  std::vector<std::string> cells(const RunSet& run_set) const;     ///< one per name
  std::vector<std::string> cells(const PaperColumn& paper) const;  ///< one per name; the paper gives only seconds
  /// What each set saved at equal loss, in arithmetic: a line each, none where it is not known.
  std::string conclusions() const;

 private:
  /// Seconds, or arithmetic in a unit that suits the longest run.
  struct Measure {
    std::string name, unit;
    double Cost::*value;
    double scale = 1;
    std::vector<RunSet> baselines{};  ///< baselines of the curve for savings at equal loss
    bool equal_loss = false;          ///< some set has such a saving
  };

  void add_cells(const RunSet& run_set, const Measure& measure, std::vector<std::string>& cells) const;
  std::string saved(const RunSet& run_set, MethodName method, const Figure& figure) const;

  const std::vector<RunSet>& sets_;
  std::optional<double> target_;
  int stages_ = 0;  ///< largest number of fusion stages
  std::vector<Measure> measures_;
};

/// The table that `mrmf compare` prints, before it is text. The first column holds the rows' names. All columns have
/// the same number of cells.
struct ComparisonTable {
  std::vector<std::vector<std::string>> columns;
  std::size_t heading = 0;         ///< leading cells of a column that name it
  std::set<std::size_t> beside{};  ///< columns that stay beside the previous one
  std::string settings{};          ///< those too long for a heading, a line each
  std::string notes{};             ///< how to read it, and warnings, a line each
  std::string conclusions{};       ///< what was saved at equal loss, a line each
};
ComparisonTable comparison_table(const std::vector<RunSet>& sets, const CompareOptions& options);

/// Mean seconds over the ranks that one stage of a run took, and where they went.
struct StageTime {
  int stage = 0;  ///< 1-based; 0: everything after the last fusion
  double compute = 0, communication = 0, io = 0;
  double other = 0;  ///< building and fusing models, writing files
  double seconds() const { return compute + communication + io + other; }
};
/// The fusion stages, then what came after. Of two teams at once, the one that took longer counts, as in cost_of().
std::vector<StageTime> stage_times(const Run& run);

// What a finished run was set to, by the effective configuration in its folder. Private to src/compare.

/// The settings of a run by its config.toml, without those that repetitions may differ in. Of folds, what was measured
/// over the rows that train is none of them.
Settings read_settings(const std::string& toml);

/// The fold that validated, from 0; 0 where the split has none.
int fold_of(const std::string& toml);

}  // namespace mrmf
