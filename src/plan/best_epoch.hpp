// What training.monitor looks at, and the best epoch by it: value types that the training loop feeds. No I/O, no MPI.
#pragma once

#include <cmath>
#include <optional>

#include "src/config/config.hpp"

namespace mrmf {

/// The monitored number of an epoch as one that falls while a model gets better: the validation loss, or the negative
/// of the metric. NaN where there is none.
inline double monitored(Monitor monitor, double validation_loss, std::optional<double> metric) {
  return monitor == Monitor::loss ? validation_loss : -metric.value_or(std::nan(""));
}

/// The best epoch of a phase so far. Of equal epochs the first one is the best.
struct BestEpoch {
  int epoch = 0;     ///< 1-based; 0: none yet
  double value = 0;  ///< its monitored()

  /// Whether this epoch is now the best one.
  bool update(int of_epoch, double of_value) {
    if (std::isnan(of_value) || (epoch > 0 && of_value >= value)) return false;
    *this = {of_epoch, of_value};
    return true;
  }
  bool operator==(const BestEpoch&) const = default;
};

}  // namespace mrmf
