// method.name = "auto": the program chooses the schedule of a run, from the configuration and the shape of a sample,
// and whether it pays from what it costs, and from a measurement of some training samples. No clock is asked, and the
// number of ranks only for how many samples a step has. So it is the same on every machine, and what it chooses can be
// written by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/inspection/detail_measurement.hpp"
#include "src/run/run_cost.hpp"

namespace mrmf {

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

}  // namespace mrmf
