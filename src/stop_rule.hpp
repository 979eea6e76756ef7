// When one training step of the plan ends. A value type fed by the training loop: no I/O, no MPI.
#pragma once

#include <optional>
#include <string>

#include "src/config.hpp"

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

  int epochs() const { return epochs_; }
  int slow_epochs() const { return slow_epochs_; }  ///< consecutive epochs below the threshold so far

 private:
  StopSettings settings_;
  int epochs_ = 0;
  int slow_epochs_ = 0;
  std::optional<double> previous_;
};

}  // namespace mrmf
