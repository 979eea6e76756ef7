// When one training step of the plan ends. A value type fed by the training loop: no I/O, no MPI.
#pragma once

#include <optional>
#include <string>

#include "src/config/config.hpp"

namespace mrmf {

enum class StopReason { none, epochs, plateau, target };
std::string to_string(StopReason reason);

/// Paper section 3.2: "If the training loss reduction is smaller than the threshold for a consecutive of T_p epochs,
/// we stop". Also an upper bound of epochs and, in the last step, a target validation loss.
/// Fed with values that are equal on every rank, so that all ranks stop together.
class StopRule {
 public:
  explicit StopRule(const StopSettings& settings) : settings_(settings) {}

  /// After an epoch. The first epoch has no reduction and never counts towards patience.
  StopReason update(double train_loss, double validation_loss);

  /// What it has seen: all that update() looks at beside its arguments and the settings.
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
