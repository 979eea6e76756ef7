// A model's loss and metric on the validation data.
#pragma once

#include <optional>

#include "src/training/phase_context.hpp"

namespace mrmf {

struct Validation {
  /// Mean over all validation samples with a label that counts, each counted once: none where no label counts.
  std::optional<double> loss{};
  std::optional<MetricValue> metric{};  ///< where the phase measures one
};

/// Rows that are scored, and in which order.
struct ScoredRows {
  Batches* batches;  ///< none: whole samples are scored, window by window
  const Split& split;
  const EpochOrder& order;
};

/// Scores the rows of these steps of the order with the phase's model: the sum of their losses over all ranks; what the
/// metric counts is in Objective::sums(). Collective.
double score_rows(PhaseContext& context, const ScoredRows& rows, const Range& steps);

/// How many of what the model takes a score of the split sees: samples, or windows of them.
Index scored_rows(const PhaseContext& context, const Split& split);

/// The phase's model as it is; the same result on every rank. Collective.
Validation validate(PhaseContext& context);

}  // namespace mrmf
