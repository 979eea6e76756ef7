// What the program chooses: the schedule of method.name = "auto" (auto_schedule.cpp), and the baseline's learning
// rate, batch and rule by successive halving (tune.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/inspection/detail_measurement.hpp"
#include "src/run/run_cost.hpp"

namespace mrmf {

// method.name = "auto": the program chooses the schedule of a run, from the configuration and the shape of a sample,
// and whether it pays from what it costs, and from a measurement of some training samples. No clock is asked, and the
// number of ranks only for how many samples a step has. So it is the same on every machine, and what it chooses can be
// written by hand.

struct AutoSchedule {
  Config config;  ///< config of the same run, with its method and epochs written out
  /// Arithmetic of its training, in epochs at full resolution; an upper bound. What else a run costs, which counts
  /// where the number of samples is known: src/run/run_cost.hpp.
  double training_cost = 0;
  double baseline_training_cost = 0;          ///< cost of training.epochs of the baseline, at full resolution
  std::vector<std::string> reasons{};         ///< why, a line each
  std::optional<DetailMeasurement> detail{};  ///< where training samples were looked at
};

/// The same run as a baseline.
Config baseline_of(Config config);

/// A resolution at which a coarse model may be trained.
struct CoarseLevel {
  Extent resolution{1, 1, 1};
  double cost = 1;  ///< cost of an epoch, in epochs at full resolution
};
struct CoarseLevels {
  std::vector<CoarseLevel> usable;  ///< from coarse to fine
  std::string end;                  ///< why there is none that is coarser
};
/// All axes averaged by 2, by 4, but those whose positions are no multiple: as far as data and network allow it, the
/// top can be interpolated, and each level is much cheaper than the one before. ConfigError: the network does not fit
/// the sample.
CoarseLevels coarse_levels(const Config& config, const Shape& sample);

/// What config.method.name = "auto" comes to: a coarse model that is transferred to full resolution, behind a stem
/// where that is possible and a coarse epoch is no small part of a full one, else by its convolutions and interpolated
/// top; or the baseline where no coarse model would save anything. training.epochs is what one would give the baseline.
/// With a size it never costs as much as the baseline, by run_cost(); without one, by the arithmetic of its training.
/// `sample`: of the data, at full resolution. ConfigError: the network does not fit the sample.
AutoSchedule choose_schedule(const Config& config, const Shape& sample, const std::optional<RunSize>& size = {});

/// The same for training data at hand, of full resolution. Where a coarse model would save something, looks at some of
/// them (unless method.detail leaves that out): the baseline, too, where averages of 2 lose what the labels depend on.
/// Collective. Errors as measure_detail()'s, too.
AutoSchedule choose_schedule(const Config& config, const DatasetShape& train, const RunSize& size, Comm& comm);

// Tuning of the baseline: learning rate, batch and rule, by successive halving with resolution as fidelity. Many trials
// train at a coarse resolution, where an epoch is cheap, and the best of them at the next finer one, up to the last.

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
