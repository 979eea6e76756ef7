// `mrmf plot`: hands run folders to the plotting script (jobs/plot.py).
#pragma once

#include <string>
#include <vector>

namespace mrmf {

struct PlotOptions {
  std::vector<std::string> runs;
  std::string output;         ///< .png or .svg
  std::string x = "seconds";  ///< the horizontal axis: seconds | gflop | epochs
  bool mean = false;          ///< one line per method: the mean over its seeds, and their range
};
/// Runs a script of jobs/ that draws. ConfigError as below.
void draw_plot(const std::string& script, const std::vector<std::string>& words);

/// ConfigError when Python or its matplotlib is missing, or the script refuses the runs.
void plot_runs(const PlotOptions& options);

}  // namespace mrmf
