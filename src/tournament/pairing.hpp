// Who meets whom, and whose model goes where: pure functions, the same on every rank.
#pragma once

#include <cstdint>
#include <vector>

namespace mrmf {

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

}  // namespace mrmf
