// The score of a phase's model on the rows that its trainer holds out, with what is known of its uncertainty.
#pragma once

#include <optional>

#include "src/tournament/pairing.hpp"
#include "src/training/phase_context.hpp"

namespace mrmf {

/// The held-out rows in groups of equal size, up to one row per shard: at most 32, as few as a metric needs. The same
/// groups on any number of ranks where data.shards is the same.
EpochOrder score_groups(const Split& held_out, Index rows_at_once, bool by_metric);

/// Scores models of one phase. What PhaseContext::meeting holds.
class GroupScores final : public MeetingState {
 public:
  /// For the rows that `context`'s data hold out. Collective.
  explicit GroupScores(PhaseContext& context);
  /// That of the phase, made if it is not there.
  static GroupScores& of(PhaseContext& context);

  /// The model as it is, by what training.monitor watches: the loss, or the metric, with its sign turned where more of
  /// it is better. Not finite where the loss is not, or where no group has a score. Collective; the same on every rank.
  Score score(PhaseContext& context);
  /// A score as people know it: the metric has its own sign again.
  double shown(double value) const { return by_metric_ ? rising(*by_metric_, -value) : value; }
  /// Rows, or windows of them, that a score takes, over all ranks.
  Index rows(const PhaseContext& context) const;

 private:
  void read_ahead(PhaseContext& context);

  std::optional<Metric> by_metric_;  // none: by the loss
  const Split* split_;
  EpochOrder order_;
  std::optional<Batches> batches_;  // none: whole samples are scored, window by window
};

}  // namespace mrmf
