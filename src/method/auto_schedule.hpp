// method.name = "auto": the program chooses the schedule of a run, from the configuration and the shape of a sample
// alone. So it is the same on every machine and on any number of ranks, and what it chooses can be written by hand.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace mrmf {

struct AutoSchedule {
  Config config;                       ///< of the same run, with its method and epochs written out
  double cost = 0;                     ///< arithmetic of its training, in epochs at full resolution; an upper bound
  double baseline_cost = 0;            ///< of training.epochs at full resolution
  std::vector<std::string> reasons{};  ///< why, a line each
};

/// What config.method.name = "auto" comes to: a coarse model whose convolutions and interpolated top are handed over to
/// full resolution, or the baseline where no coarse model would save anything. training.epochs is what one would give
/// the baseline. `sample`: of the data, at full resolution. ConfigError: the network does not fit the sample.
AutoSchedule choose_schedule(const Config& config, const Shape& sample);

}  // namespace mrmf
