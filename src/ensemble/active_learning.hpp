// Active learning: the rounds of an ensemble (ensemble.rounds).
#pragma once

#include <string>
#include <vector>

#include "src/ensemble/design.hpp"
#include "src/ensemble/members.hpp"

namespace mrmf {

// A surrogate in the loop: models learn what members come to from the design's keys, and members are added where these
// models disagree most.

/// The points that rounds have added so far, in their order, and how many rounds that were.
struct RoundPoints {
  std::vector<Point> points;
  int rounds = 0;
};

/// What the rounds' record in the ensemble's folder says; none where there is none. DataError where it is damaged
/// before its last line.
RoundPoints read_rounds(const EnsembleSpec& spec);

/// Which of the candidates (points of the unit cube) are taken: those of the highest disagreement, but none close to
/// one that was taken before it.
std::vector<std::size_t> choose_candidates(const std::vector<Point>& candidates,
                                           const std::vector<double>& disagreement, Index wanted);

/// One round: trains the models on the ensemble's data set, several at once, lets them predict candidates, and records
/// the points that it adds. On the root, from a data set that holds all members so far. Returns a line for people.
/// FaultError where a training fails; throws Stopped when `workplace` says so. A round that was interrupted continues.
std::string add_round(const EnsembleSpec& spec, const std::vector<Point>& points, int round,
                      const Workplace& workplace);

}  // namespace mrmf
