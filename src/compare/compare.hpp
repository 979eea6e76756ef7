// `mrmf compare` and `mrmf plot`: a table of finished runs, as the paper's Tables 5 and 7, and their curves, drawn by a
// script (jobs/plot.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/output_file.hpp"

namespace mrmf {

struct CompareOptions {
  std::optional<double> target{};  ///< also prints the cost until the validation loss first reached this
  std::string baselines{};  ///< comma-separated values as compare_csv() writes them: their baselines are the curve
  std::size_t width = 0;    ///< characters of a line: further columns go below; 0: no limit
};

/// Characters in a line of standard output: COLUMNS, else the terminal's, else 120, so that a file looks the same
/// wherever it is made.
std::size_t output_width();

/// The comparison as a table with a column per method, schedule and settings. Shows the mean, sample standard deviation
/// and number over the seeds, and savings and loss differences seed by seed with their standard error. The paper's own
/// figures stand beside the columns that have some, and each reason for an unfair comparison has a line. DataError for
/// a folder without a finished run, or with a damaged one: a table without it would mislead.
std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options);
/// The runs behind that table as comma-separated values, one line each, under a line of names.
std::string compare_csv(const std::vector<std::string>& folders, const CompareOptions& options);
/// The columns of that table with their runs, figures and warnings.
std::string compare_json(const std::vector<std::string>& folders, const CompareOptions& options);

struct PlotOptions {
  std::vector<std::string> runs;
  OutputOption output;        ///< .png or .svg
  std::string x = "seconds";  ///< the horizontal axis: seconds | gflop | epochs
  bool mean = false;          ///< one line per method: the mean over its seeds, and their range
};
/// ConfigError when it cannot be written, or when its name ends in neither .png nor .svg.
void require_plot(const OutputOption& output);

/// Runs a drawing script of jobs/ with these words and the place to draw to. ConfigError as below.
void draw_plot(const std::string& script, std::vector<std::string> words, const OutputOption& output);

/// Draws the runs' curves. ConfigError when Python or its matplotlib is missing, or the script refuses the runs.
void plot_runs(const PlotOptions& options);

}  // namespace mrmf
