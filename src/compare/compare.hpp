// `mrmf compare`: finished runs side by side, as the paper's Tables 5 and 7. `mrmf plot`: their curves, drawn by a
// script (jobs/plot.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/output_file.hpp"

namespace mrmf {

struct CompareOptions {
  std::optional<double> target{};  ///< also the cost until the validation loss first reached this
  std::size_t width = 0;           ///< of a line, in characters: more columns go below; 0: as wide as it comes
};

/// Characters in a line of standard output: what COLUMNS says, else the terminal, else 120, so that a file looks the
/// same wherever it is made.
std::size_t output_width();

/// A column per method, schedule and settings; mean, sample standard deviation and number over the seeds; savings and
/// differences of the loss seed by seed, with their standard error; the paper's own figures beside the columns that
/// have some; a line for whatever makes the comparison unfair. DataError for a folder that holds no finished run or a
/// damaged one: a table without it would mislead.
std::string compare_table(const std::vector<std::string>& folders, const CompareOptions& options);
/// The runs behind that table, a line each, as comma-separated values under a line of names.
std::string compare_csv(const std::vector<std::string>& folders, const CompareOptions& options);
/// The columns of that table with their runs, figures and warnings.
std::string compare_json(const std::vector<std::string>& folders, const CompareOptions& options);

struct PlotOptions {
  std::vector<std::string> runs;
  OutputOption output;        ///< .png or .svg
  std::string x = "seconds";  ///< the horizontal axis: seconds | gflop | epochs
  bool mean = false;          ///< one line per method: the mean over its seeds, and their range
};
/// ConfigError when it cannot be written, or its name ends in neither .png nor .svg.
void require_plot(const OutputOption& output);

/// Runs a script of jobs/ that draws, with these words and where to draw. ConfigError as below.
void draw_plot(const std::string& script, std::vector<std::string> words, const OutputOption& output);

/// ConfigError when Python or its matplotlib is missing, or the script refuses the runs.
void plot_runs(const PlotOptions& options);

}  // namespace mrmf
