// The schedule of a phase: its learning rate over time, and its end. Value types fed by the training loop: no I/O, no
// MPI.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "src/config/config.hpp"

namespace mrmf {

/// Where on its curve a phase begins and ends, in [0, 1]. A curve over the whole run gives each phase a part; a curve
/// per phase is {0, 1}.
struct CurvePart {
  double begin = 0, end = 1;
  bool operator==(const CurvePart&) const = default;
};

/// The learning rate as a function of a phase's progress. Only reduce-on-plateau has memory.
class LearningRate {
 public:
  /// `epochs` is the length of cosine and linear rules (the phase's upper bound).
  LearningRate(const OptimizerSettings& settings, int epochs, CurvePart part = {});

  /// At optimizer step `step` of `steps` in epoch `epoch` (from 0). Constant within an epoch except for cosine and
  /// linear.
  double at(int epoch, Index step, Index steps) const;

  /// Call after an epoch: reduce-on-plateau looks at the validation loss (PyTorch's rule, relative threshold,
  /// cooldown).
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

/// Why a phase ended; none: it goes on.
enum class StopReason { none, epochs, plateau, target };
std::string to_string(StopReason reason);

/// The end of a phase. Paper section 3.2: "If the training loss reduction is smaller than the threshold for a
/// consecutive of T_p epochs, we stop". Also an upper bound of epochs and, in the last phase, a target validation loss.
/// Its inputs are equal on every rank, so that all ranks stop together.
class StopRule {
 public:
  explicit StopRule(const StopSettings& settings) : settings_(settings) {}

  /// Call after an epoch. The first epoch has no reduction and never counts towards patience.
  StopReason update(double train_loss, double validation_loss);

  /// All that update() looks at besides its arguments and the settings.
  struct Memory {
    int epochs = 0;
    int slow_epochs = 0;             ///< consecutive epochs below the threshold so far
    std::optional<double> previous;  ///< training loss of the last epoch
    bool operator==(const Memory&) const = default;
  };
  const Memory& memory() const { return memory_; }
  void recall(const Memory& memory) { memory_ = memory; }

  int epochs() const { return memory_.epochs; }
  int slow_epochs() const { return memory_.slow_epochs; }

 private:
  StopSettings settings_;
  Memory memory_;
};

}  // namespace mrmf
