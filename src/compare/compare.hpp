// `mrmf compare` and `mrmf plot`: a table of finished runs, as the paper's Tables 5 and 7, and their curves, drawn by a
// script (jobs/plots/plot.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "src/run/model_report.hpp"

namespace mrmf {

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

}  // namespace mrmf
