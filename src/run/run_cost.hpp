// What a run costs, before it runs: its arithmetic as its records will count it (EpochRecord::gflop). And how long it
// may still take, while it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"

namespace mrmf {

/// What a run is made for.
struct RunSize {
  double training = 0, validation = 0;  ///< samples
  int ranks = 1;
};

/// Whether a model's batch norms are recalibrated (training.precise_batch_norm).
bool takes_statistics(const Config& config);

/// In epochs of the configured network at the last resolution. Validation is part of an epoch, and of every phase's.
struct RunCost {
  double epochs = 0;      ///< all of it; an upper bound where may_end_early()
  double statistics = 0;  ///< those for batch norms' recalibration (training.precise_batch_norm)
  double probes = 0;      ///< those for probes of the coarse model (method.switch = "slope"), at most
  /// There are some, but they are left out, because the number of samples is not known.
  bool without_statistics = false, without_probes = false;
  bool complete() const { return !without_statistics && !without_probes; }
};

/// ConfigError as network_settings(). Where two teams train at once, each is counted as if it had all ranks.
RunCost run_cost(const Config& config, const Plan& plan, const Shape& sample, const std::optional<RunSize>& size);

// How long a run may still take: from the seconds of its epochs so far and the arithmetic of those to come.

/// What a phase of the plan asks for.
struct PhaseWork {
  int stage = 1;
  Role role = Role::baseline;
  Extent resolution{1, 1, 1};
  int batch = 1;         ///< per rank
  int epochs = 1;        ///< at most
  bool early = false;    ///< it may end before them
  bool at_once = false;  ///< a dense model that a team trains while another trains the stage's coarse model
  double gflop = 0;      ///< gflop of an epoch, as EpochRecord::gflop counts
};

/// Numbers of samples that an epoch sees.
struct EpochSamples {
  Index training = 0, validation = 0;
};

/// The plan's phases in order, for samples of this shape. ConfigError as network_settings().
std::vector<PhaseWork> phase_work(const Config& config, const Plan& plan, const Shape& sample,
                                  const EpochSamples& samples);

/// Where a run stands.
struct RunPosition {
  int stage = 1;
  Role role = Role::baseline;
  double epochs = 0;                      ///< done in this phase; a fraction of the one under way counts
  int ranks = 1;                          ///< that train it
  std::optional<double> epoch_seconds{};  ///< the time of the epoch under way, judged by its steps so far
};

/// Seconds to go.
struct TimeLeft {
  double phase = 0, run = 0;
  bool phase_at_most = false, run_at_most = false;  ///< a stop rule may end it earlier
  bool last_phase = false;                          ///< both are the same
};

/// "phase 12 s, run at most 3 min 05 s"; without the phase in the last one, and where it has ended.
std::string time_left_text(const TimeLeft& left);

class TimeEstimate {
 public:
  TimeEstimate() = default;
  /// `ranks` train every phase but those of two teams.
  TimeEstimate(std::vector<PhaseWork> phases, int ranks) : phases_(std::move(phases)), ranks_(ranks) {}

  /// An epoch takes what the phase's last ones took. One of a phase to come takes what epochs of the same resolution
  /// and batch took, or else as long per operation and rank as the phase under way. `past` are the run's records.
  /// Nothing where there is nothing to go by.
  std::optional<TimeLeft> left(const std::vector<PhaseHistory>& past, const RunPosition& now) const;

 private:
  std::vector<PhaseWork> phases_;
  int ranks_ = 1;
};

}  // namespace mrmf
