// A model's loss and metric on the validation data.
#pragma once

#include <optional>

#include "src/training/phase_run.hpp"

namespace mrmf {

struct Validation {
  /// Mean over all validation samples with a label that counts, each counted once: none where no label counts.
  std::optional<double> loss{};
  std::optional<MetricValue> metric{};  ///< where the phase measures one
};

/// How many of what the model takes a validation sees: samples, or windows of them.
Index validated_rows(const PhaseRun& run);

/// The phase's model as it is; the same result on every rank. Collective.
Validation validate(PhaseRun& run);

}  // namespace mrmf
