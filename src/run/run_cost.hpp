// What a run costs, before it runs: its arithmetic as its records will count it (EpochRecord::gflop).
#pragma once

#include <optional>

#include "src/plan/plan.hpp"

namespace mrmf {

/// What a run is made for.
struct RunSize {
  double training = 0, validation = 0;  ///< samples
  int ranks = 1;
};

/// Whether a model's batch norms are recalibrated (training.precise_batch_norm).
bool takes_statistics(const Config& config);

/// In epochs of the configured network at the last resolution. Validation is part of an epoch, and of every phase's.
struct RunCost {
  double epochs = 0;      ///< all of it; an upper bound where may_end_early()
  double statistics = 0;  ///< those for batch norms' recalibration (training.precise_batch_norm)
  double probes = 0;      ///< those for probes of the coarse model (method.switch = "slope"), at most
  /// There are some, but they are left out, because the number of samples is not known.
  bool without_statistics = false, without_probes = false;
  bool complete() const { return !without_statistics && !without_probes; }
};

/// ConfigError as network_settings(). Where two teams train at once, each is counted as if it had all ranks.
RunCost run_cost(const Config& config, const Plan& plan, const Shape& sample, const std::optional<RunSize>& size);

}  // namespace mrmf
