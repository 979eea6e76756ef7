// When a phase ends: a value type that the training loop feeds. No I/O, no MPI.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/plan/slope_rule.hpp"

namespace mrmf {

/// Why a phase ended; none: it continues.
enum class StopReason { none, epochs, plateau, target, early_stopping, slope };
std::string to_string(StopReason reason);

/// The end of a phase. Paper section 3.2: "If the training loss reduction is smaller than the threshold for a
/// consecutive of T_p epochs, we stop". Also an upper bound of epochs, a number of epochs without a better validation
/// and, in the last phase, a target of the validation loss or of a metric. Its inputs are equal on every rank, so that
/// all ranks stop together.
class StopRule {
 public:
  explicit StopRule(const StopSettings& settings) : settings_(settings) {}

  /// Call after an epoch. The first epoch has no reduction and never counts towards patience. NaN, as validation loss
  /// or as metric, says that there was nothing to score: it reaches no target and counts towards no patience.
  StopReason update(double train_loss, double validation_loss, std::optional<double> metric = {});

  /// Call before update() of the epoch after which the model was probed: settings.probe_epochs says when.
  void add_probe(const ProbeRecord& probe) { memory_.probes.push_back(probe); }
  /// Whether the epoch under way ends with a probe. The last one does not: nothing is left to decide.
  bool probe_due() const;

  /// All that update() looks at besides its arguments and the settings.
  struct Memory {
    int epochs = 0;
    int slow_epochs = 0;                ///< consecutive epochs below the threshold so far
    std::optional<double> previous;     ///< training loss of the last epoch
    int unimproved = 0;                 ///< consecutive epochs in which `best` did not improve
    std::optional<double> best{};       ///< monitored() of the last epoch that counted as better (best_epoch.hpp)
    std::vector<ProbeRecord> probes{};  ///< so far
    bool operator==(const Memory&) const = default;
  };
  const Memory& memory() const { return memory_; }
  void recall(const Memory& memory) { memory_ = memory; }

  int epochs() const { return memory_.epochs; }
  int slow_epochs() const { return memory_.slow_epochs; }

 private:
  void count_unimproved(double value);

  StopSettings settings_;
  Memory memory_;
};

}  // namespace mrmf
