// The learning rate as a function of where a training step of the plan stands. Only reduce-on-plateau has memory.
#pragma once

#include <limits>

#include "src/config/config.hpp"

namespace mrmf {

/// Where on its curve a training step begins and ends, in [0, 1]. A curve over the whole run gives each training step
/// of the plan its part; a curve per step is {0, 1}.
struct CurvePart {
  double begin = 0, end = 1;
  bool operator==(const CurvePart&) const = default;
};

class LearningRate {
 public:
  /// `epochs`: the length that cosine and linear rules run over (the step's upper bound).
  LearningRate(const OptimizerSettings& settings, int epochs, CurvePart part = {});

  /// At optimizer step `step` of `steps` in epoch `epoch` (from 0). Constant within an epoch except for cosine, linear.
  double at(int epoch, Index step, Index steps) const;

  /// After an epoch: reduce-on-plateau looks at the validation loss (PyTorch's rule, relative threshold, cooldown).
  void epoch_done(double validation_loss);

  /// What reduce-on-plateau has seen.
  struct Memory {
    double factor = 1, best = std::numeric_limits<double>::infinity();
    int bad_epochs = 0, cooldown_left = 0, epochs = 0;
    bool operator==(const Memory&) const = default;
  };
  const Memory& memory() const { return memory_; }
  void recall(const Memory& memory) { memory_ = memory; }

 private:
  OptimizerSettings settings_;
  int epochs_;
  CurvePart part_;
  Memory memory_;
};

}  // namespace mrmf
