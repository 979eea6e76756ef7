// Run folders read back and put into groups. Private to src/compare*.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/compare.hpp"
#include "src/records.hpp"

namespace mrmf {

/// Settings of the effective configuration, "section.key" to value, without what may differ between runs that are
/// repetitions of each other: the seed, [run], and the resolutions, which results hold.
using Settings = std::map<std::string, std::string>;

struct Run {
  std::string folder;
  RunResult result;
  std::vector<EpochRecord> epochs;
  Settings settings;
};

/// Runs that differ in the seed alone, or in which axis of the samples a resolution averages.
struct Group {
  std::vector<Run> runs;
  std::string settings_label;  ///< "optimizer.rule = cosine": tells groups of the same method apart; else empty
  const RunResult& first() const { return runs.front().result; }
};

/// method.bottom = "fresh": no coarse model was trained.
bool fresh_bottom(const Run& run);

Run read_run(const std::string& folder);
/// In the order baseline, MRT, progressive, MRMF by number of fusions.
std::vector<Group> group_runs(const std::vector<std::string>& folders);
/// Lines for what makes the comparison unfair; empty when nothing does.
std::vector<std::string> warnings(const std::vector<Group>& groups);

/// Mean and sample standard deviation.
struct Spread {
  double mean = 0, deviation = 0;
  std::size_t count = 0;
};
Spread spread(const std::vector<double>& values);
/// "35", "35.5 +- 0.7": the spread where there are several values.
std::string text(const Spread& spread, int digits);

bool after_fusion(const std::string& role);  ///< baseline and finetune
double epochs_of(const Run& run, const std::string& role);
double epochs_after(const Run& run);
/// What training cost: seconds on the machine it ran on, and arithmetic, which no other work on that machine changes.
struct Cost {
  double seconds = 0, gflop = 0;
};
/// Of fusion stage `stage` (1-based, both models), or of what comes after fusion for stage 0.
Cost cost_of(const Run& run, int stage);
Cost total_cost(const Run& run);
int fusion_stages(const Run& run);
/// Up to the end of the first epoch after fusion whose validation loss is at most `target`.
std::optional<Cost> cost_to(const Run& run, double target);
/// Arithmetic of all epochs in units of one epoch at the run's last resolution; nothing for records without arithmetic.
std::optional<double> equivalent_epochs(const Run& run);

}  // namespace mrmf
