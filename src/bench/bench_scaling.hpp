// `mrmf bench scaling`: epochs of one model on 1, 2, ... ranks of the same job, and where their time goes.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "io/output_option.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

struct ScalingSettings {
  std::vector<int> ranks;  ///< teams to measure, at most the world's size; empty: 1, 2, 4, ... and all
  bool weak = false;       ///< batch per rank as configured; else the mini-batch that they make on the largest team
  int epochs = 3;          ///< measured, after one that is not; the median one is shown
  OutputOption csv, plot;
};

/// One team's median epoch. Seconds are means over its ranks.
struct ScalingPoint {
  int ranks = 1, batch = 1;  ///< batch per rank
  double read = 0;           ///< of the files, once
  double epoch = 0, io = 0, compute = 0, waited = 0, hidden = 0;
  double samples_per_second = 0;
  double speedup = 1, efficiency = 1, ideal = 0;  ///< against the smallest team, were its work shared out evenly
};

/// The teams to measure, in increasing order. ConfigError: a number that is no rank count of `world` ranks.
std::vector<int> scaling_teams(const std::vector<int>& wanted, int world);

/// The batch per rank on `ranks` ranks. ConfigError where the mini-batch cannot be shared out evenly.
int scaling_batch(const ScalingSettings& settings, int configured, int ranks, int most_ranks);

/// Speedup, efficiency and ideal seconds, against the first point.
void compare_with_first(std::vector<ScalingPoint>& points);

std::string scaling_table(const std::vector<ScalingPoint>& points);
std::string scaling_csv(const std::vector<ScalingPoint>& points);

/// Measures the model that the plan ends with, at its resolution. Collective; the root prints and writes. ConfigError
/// as above, and when the files cannot be written.
void bench_scaling(const Config& config, ScalingSettings settings, Comm& world, std::ostream& out);

}  // namespace mrmf
