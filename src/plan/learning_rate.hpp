// The learning rate of a phase as it continues: a value type that the training loop feeds. No I/O, no MPI.
#pragma once

#include <limits>

#include "src/config/config.hpp"

namespace mrmf {

/// Where on its curve a phase begins and ends, in [0, 1]. A curve over the whole run gives each phase a part; a curve
/// per phase is {0, 1}.
struct CurvePart {
  double begin = 0, end = 1;
  bool operator==(const CurvePart&) const = default;
};

/// The learning rate as a function of a phase's progress. Only reduce-on-plateau and a tournament's mutations carry
/// state.
class LearningRate {
 public:
  /// `epochs` is the length of cosine and linear rules (the phase's upper bound).
  LearningRate(const OptimizerSettings& settings, int epochs, CurvePart part = {});

  /// At optimizer step `step` of `steps` in epoch `epoch` (from 0). Constant within an epoch except for cosine and
  /// linear.
  double at(int epoch, Index step, Index steps) const;

  /// Call after an epoch: reduce-on-plateau looks at the validation loss (PyTorch's rule, relative threshold,
  /// cooldown). NaN: the epoch has none, so that it counts neither as good nor as bad.
  void epoch_done(double validation_loss);

  /// From now on the rate is so many times what the rule says: a mutation in a tournament.
  void scale(double factor) { state_.scale = factor; }

  /// What reduce-on-plateau has seen, and the factor of scale().
  struct State {
    double factor = 1, best = std::numeric_limits<double>::infinity();
    int bad_epochs = 0, cooldown_left = 0, epochs = 0;
    double scale = 1;
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  void load_state(const State& state) { state_ = state; }

 private:
  OptimizerSettings settings_;
  int epochs_;
  CurvePart part_;
  State state_;
};

}  // namespace mrmf
