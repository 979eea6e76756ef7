// State of a phase's training: everything but the numbers in its model's arenas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records.hpp"

namespace mrmf {

/// Seconds of one epoch by what they went to, as in the paper's Tables 4 and 8. They add up to less than the epoch's
/// seconds where a phase begins: models are built and fused there.
struct EpochTime {
  double io = 0, compute = 0, communication = 0, hidden = 0;
};

/// A phase's part of the records.
struct PhaseHistory {
  PhaseRecord record;               ///< its reason is empty until the phase ends
  std::vector<EpochRecord> epochs;  ///< the finished ones
};

/// A trainer's place in a tournament; that of a run without one is as it begins.
struct TournamentState {
  int rounds = 0;                        ///< meetings that are over
  double weight_decay = 1, dropout = 1;  ///< so many times the phase's own; the rate's factor is LearningRate's
  Index scored = 0;                      ///< samples that models were scored on in the epoch under way, over all ranks
};

struct TrainState {
  StopRule stop;  ///< knows the number of epochs done
  LearningRate rate;
  BestEpoch best;  ///< the epoch whose model is kept beside the last one, where the phase keeps it
  PhaseHistory history;
  TournamentState tournament;
  Index step = 0;                 ///< optimizer steps done in the epoch under way
  double loss = 0;                ///< sum over the rows of those steps
  std::vector<double> terms;      ///< the same of each term of a network of several parts
  std::vector<double> term_rows;  ///< rows of the steps in whose turn it was
  Index samples = 0;              ///< those rows over all ranks, each counted where it was trained
  double sent = 0;                ///< bytes that this team's ranks sent in those steps, their mean
  EpochTime time;                 ///< time of the epoch under way
  double epoch_start = 0;         ///< when that epoch began, in seconds of the run
  double total_seconds = 0;       ///< total seconds of the run, when this state was saved

  explicit TrainState(const Phase& phase);
  bool finished() const { return !history.record.reason.empty(); }
};

/// Whether this epoch (1-based) is the best of all by `monitor`. The one whose model was kept is not where an earlier
/// version began the run and kept no model of a better one.
bool is_best(const std::vector<EpochRecord>& epochs, int epoch, Monitor monitor);

/// The number of updates that the moments of a model's bottom and top have seen. Training increases both alike. After a
/// fusion with method.moments = "carry" they differ, and so does Adam's bias correction (docs/numerics.md).
struct MomentAges {
  std::uint64_t bottom = 0, top = 0;
  bool operator==(const MomentAges&) const = default;
};

/// "in stage 1 (coarse, resolution [4]), epoch 3, after 16 steps"; "after stage ..." once it has finished.
std::string position_text(const Phase& phase, const TrainState& state);

/// JSON. Numbers come back with the same bits. DataError, naming `origin`, for a text that is not ours.
std::string to_json(const TrainState& state);
TrainState train_state_from_json(const std::string& text, const Phase& phase, const std::string& origin);
std::string to_json(const PhaseHistory& history);
PhaseHistory phase_history_from_json(const std::string& text, const std::string& origin);

}  // namespace mrmf
