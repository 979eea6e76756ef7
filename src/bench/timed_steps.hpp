// Training steps with a clock around every unit, and tables made of several rounds of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/rank_planner/cost_tables.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

/// The times of one unit of the model in all timed steps.
struct UnitTimes {
  std::vector<double> forward, backward;
};

/// Runs training steps as Model does, on made-up data. Of a grid, one block by itself: its messages bring nothing, and
/// nothing is summed over ranks.
class TimedSteps {
 public:
  TimedSteps(Backend& backend, const ModelSettings& settings, const OptimizerSettings& optimizer,
             const LossSettings& loss);

  void run(bool timed);
  /// Backward of a convolution or dense layer by itself: both passes, and the weights' alone. requires: a unit with an
  /// input other than the network's; run() before.
  struct Backward {
    double both = 0, weights = 0;
  };
  Backward backward_alone(std::size_t unit, int repeats);

  Model& model() { return model_state_.model; }
  std::vector<UnitTimes> units;
  std::vector<double> loss, update;

 private:
  StepContext step();

  Backend& backend_;
  ModelState model_state_;
  std::unique_ptr<Messages> silence_;   // messages that a grid would send
  std::unique_ptr<AllReduce> own_sum_;  // stands for a grid's sums
  Arena input_, target_;
  std::unique_ptr<LossOp> loss_op_;
  std::vector<std::int64_t> ids_;
  Shape target_shape_;
};

// One measurement out of several rounds, so that one slow round does not spoil the times of the planner's tables.

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
