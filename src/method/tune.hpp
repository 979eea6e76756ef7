// Tuning of the baseline: learning rate, batch and rule, by successive halving with resolution as fidelity. Many trials
// train at a coarse resolution, where an epoch is cheap, and the best of them at the next finer one, up to the last.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace mrmf {

/// A baseline as it is tried.
struct Trial {
  double learning_rate = 1e-3;
  int batch = 1;  ///< over all ranks of the run that it is for
  RateRule rule = RateRule::constant;
  std::vector<double> losses{};  ///< final validation loss by rung, as far as it got; NaN where it diverged
};

/// All trials of a rung train at one resolution for as many epochs.
struct Rung {
  Extent resolution{1, 1, 1};
  int epochs = 1;
  int trials = 0;
  double cost = 0;  ///< cost of one trial, in epochs at full resolution; without batch norms' recalibration
};

struct TuneSettings {
  Config config;  ///< the baseline to tune: training.epochs long, at full resolution. Its
                  ///< data.normalise is resolved (resolve_normalisation)
  std::vector<Trial> trials;
  std::string folder;  ///< keeps every finished trial, for a call that continues
};

/// The rungs for so many trials: a third of them, at least two, climb from each to the next. Of twenty or more, at
/// least five reach the last rung, so that its order can be compared. The coarser resolutions are those that data and
/// network allow and whose epochs are cheap; where there are none, a third of the epochs at full resolution takes their
/// place. One rung alone, at full resolution, where others would save nothing. ConfigError: the network does not fit
/// the sample.
std::vector<Rung> make_rungs(const Config& config, const Shape& sample, int trials);

/// Trains them, one trial per rank at a time, and returns the trials from best to worst: those that came furthest
/// first. `tell` gets a line for people on the root whenever a rung is done. The order of the trials and their losses
/// do not depend on the number of ranks. Throws Stopped when a signal came; finished trials are kept. Collective.
std::vector<Trial> tune(const TuneSettings& settings, const std::vector<Rung>& rungs, Comm& world,
                        const std::function<void(const std::string&)>& tell);

/// Fewer trials than these agree by chance too often.
inline constexpr int kFewestForAgreement = 5;
/// Spearman's rank correlation of the losses at two rungs, over the trials that reached both; NaN for fewer than
/// kFewestForAgreement, and where all losses of a rung are equal.
double rank_agreement(const std::vector<Trial>& trials, std::size_t rung, std::size_t other);

/// `config` with what the trial sets, for a run on this many ranks.
Config tuned(const Config& config, const Trial& trial, int ranks);

}  // namespace mrmf
