// What a phase asks after every epoch: its learning rate from here on, whether it ends (early stopping), and which
// epoch is the best. Value types that the training loop feeds. No I/O, no MPI.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace mrmf {

// The learning rate of a phase as it continues: a value type that the training loop feeds. No I/O, no MPI.

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

// When a phase ends, and which of its epochs is the best: value types that the training loop feeds. No I/O, no MPI.

// When a coarse phase stops paying (method.switch = "slope"): a function of losses and arithmetic alone.

/// What a coarse model was worth at full resolution: a copy of it was transferred and trained for a short while, as a
/// probe. Losses are of full-resolution validation data, and the same on every rank.
struct ProbeRecord {
  int epoch = 0;           ///< epoch of the coarse phase, after which it was transferred
  double gflop = 0;        ///< gflop of the coarse phase until then, with the probes before
  double halfway = 0;      ///< loss in the middle of the probe, when what the transfer spoilt is mended
  double end = 0;          ///< loss at its end
  double probe_gflop = 0;  ///< gflop of its training from the middle to the end
  bool operator==(const ProbeRecord&) const = default;
};

/// Batch norms' statistics in a probe are of so many batches at most: a probe is one of many, and only compares.
inline constexpr int kProbeBatches = 8;

/// Steps of each half of a probe that takes this share of an epoch of `steps`.
int probe_half_steps(double share, int steps);

/// From the last probe but one to the last, the coarse phase has lowered the loss at the probe's end by less per
/// arithmetic than the second half of the last probe did. One probe alone says nothing.
bool pays_no_more(const std::vector<ProbeRecord>& probes);

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

  /// Call after an epoch, with its metric as rising() has it. The first epoch has no reduction and never counts towards
  /// patience. NaN, as validation loss or as metric, says that there was nothing to score: it reaches no target and
  /// counts towards no patience.
  StopReason update(double train_loss, double validation_loss, std::optional<double> metric = {});

  /// Call before update() of the epoch after which the model was probed: settings.probe_epochs says when.
  void add_probe(const ProbeRecord& probe) { state_.probes.push_back(probe); }
  /// Whether the epoch under way ends with a probe. The last one does not: nothing is left to decide.
  bool probe_due() const;

  /// All that update() looks at besides its arguments and the settings.
  struct State {
    int epochs = 0;
    int slow_epochs = 0;                ///< consecutive epochs below the threshold so far
    std::optional<double> previous;     ///< training loss of the last epoch
    int unimproved = 0;                 ///< consecutive epochs in which `best` did not improve
    std::optional<double> best{};       ///< monitored() of the last epoch that counted as better (BestEpoch)
    std::vector<ProbeRecord> probes{};  ///< so far
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  void load_state(const State& state) { state_ = state; }

  int epochs() const { return state_.epochs; }
  int slow_epochs() const { return state_.slow_epochs; }

 private:
  void count_unimproved(double value);

  StopSettings settings_;
  State state_;
};

// What training.monitor looks at, and the best epoch by it.

/// The monitored number of an epoch as one that falls while a model gets better: the validation loss, or the negative
/// of the metric, which is given as rising() has it. NaN where there is none.
inline double monitored(Monitor monitor, double validation_loss, std::optional<double> metric) {
  return monitor == Monitor::loss ? validation_loss : -metric.value_or(std::nan(""));
}

/// The best epoch of a phase so far. Of equal epochs the first one is the best.
struct BestEpoch {
  int epoch = 0;     ///< 1-based; 0: none yet
  double value = 0;  ///< its monitored()

  /// Whether this epoch is now the best one.
  bool update(int of_epoch, double of_value) {
    if (std::isnan(of_value) || (epoch > 0 && of_value >= value)) return false;
    *this = {of_epoch, of_value};
    return true;
  }
  bool operator==(const BestEpoch&) const = default;
};

}  // namespace mrmf
