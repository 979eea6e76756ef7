// One measurement out of several rounds, so that one slow round does not spoil the times of the planner's tables.
#pragma once

#include <string>
#include <vector>

#include "src/planner/cost_tables.hpp"

namespace mrmf {

/// A network's step in one round.
struct MeasuredStep {
  std::string network;
  double seconds = 0;
  RankWaiting waiting{};
};

struct TableRound {
  TeamTables times;
  std::vector<MeasuredStep> steps;
};

/// How far the rounds differ: (most - least) / median of a network's step, forward and backward.
struct RoundSpread {
  double median = 0, most = 0;  ///< over the networks
  std::string worst;            ///< the network of `most`
};

/// requires: at least one round; all of the same networks, in the same order.
RoundSpread spread_of(const std::vector<TableRound>& rounds);
/// The median of every time, of two the lower one; of lines, that of the round which is the median at a middle amount.
/// Also the spread's median, and the mean of the waiting. requires: as spread_of().
TeamTables median_of(const std::vector<TableRound>& rounds);

}  // namespace mrmf
