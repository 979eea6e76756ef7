// What decides whose model survives in a tournament.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/training/phase_context.hpp"

namespace mrmf {

// Who meets whom, and whose model goes where: pure functions, the same on every rank.

/// The partner of each trainer in a round (from 0), or its own number: neighbours in a random order of all of them,
/// whose last one is alone where they are odd. A function of the seed and the round, so the round is all that a
/// checkpoint has to say.
std::vector<int> partners(int trainers, std::uint64_t seed, int round);

/// A model's score, lower is better: a mean over groups of rows, and what each of them said.
struct Score {
  double value = 0;
  std::vector<double> groups{};
  /// The mean's standard error; 0 of fewer than two groups.
  double error() const;
};

/// Whether the visitor takes the place of a trainer's own model, both scored on the same rows.
struct Decision {
  double error = 0;  ///< standard error of the difference, group by group
  bool replaced = false;
};
/// A score that is not finite is worse than any that is. Ties, and differences of no more than their standard error,
/// keep the trainer's own.
Decision decide(const Score& own, const Score& visitor);

/// What truncation compares: scores of different trainers' models, each on rows of its own.
struct RankedScore {
  double value = 0, error = 0;
  bool plays = true;
};

/// Where each trainer's model comes from: itself, or one of the `best` few, which feed the rest in turn. Scores that
/// are not finite come last, and equal ones in the trainers' order. A trainer whose score is within the standard error
/// of the difference of its source's keeps its own.
std::vector<int> truncation_sources(const std::vector<RankedScore>& scores, int best);

/// 0.8 or 1.2, for what a trainer changes after it took another's model. `what` tells the changes of one time apart.
double mutation(std::uint64_t seed, int round, int trainer, int what);

// The score of a phase's model on the rows that its trainer holds out, with what is known of its uncertainty.

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
