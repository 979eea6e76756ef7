// `mrmf plot`: hands run folders to the plotting script (jobs/plot.py).
#pragma once

#include <string>
#include <vector>

#include "io/output_option.hpp"

namespace mrmf {

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
