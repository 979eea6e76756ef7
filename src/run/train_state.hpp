// Where the training of a phase stands: everything but the numbers in its model's arenas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/plan.hpp"
#include "src/plan/schedule.hpp"
#include "src/run/records.hpp"

namespace mrmf {

/// Seconds of one epoch by what they went to, as in the paper's Tables 4 and 8. They add up to less than the epoch's
/// seconds where a stage begins: models are built, fused and compared between ranks there.
struct EpochTime {
  double io = 0, compute = 0, communication = 0, hidden = 0;
};

/// What a phase leaves in the records.
struct PhaseHistory {
  PhaseRecord record;               ///< its reason is empty until the phase has ended
  std::vector<EpochRecord> epochs;  ///< those done
};

struct TrainState {
  StopRule stop;  ///< knows the number of epochs done
  LearningRate rate;
  PhaseHistory history;
  Index step = 0;            ///< optimizer steps done in the epoch under way
  double loss = 0;           ///< of those steps, summed over their rows
  Index samples = 0;         ///< those rows, of all ranks, as each counted them where it trained them
  EpochTime time;            ///< of the epoch under way
  double epoch_start = 0;    ///< when that epoch began, in seconds of the run
  double total_seconds = 0;  ///< of the run, when this state was noted

  explicit TrainState(const Phase& phase);
  bool finished() const { return !history.record.reason.empty(); }
};

/// How many updates the moments of a model's bottom and top have seen. Training adds to both alike; after a fusion
/// with method.moments = "carry" they differ, and Adam's bias correction with them (docs/numerics.md).
struct MomentAges {
  std::uint64_t bottom = 0, top = 0;
  bool operator==(const MomentAges&) const = default;
};

/// "in stage 1 (coarse, resolution [4]), epoch 3, after 16 steps"; "after stage ..." once it has finished.
std::string position_text(const Phase& phase, const TrainState& state);

/// JSON. Numbers come back as the same bits. DataError, naming `origin`, for a text that is none of ours.
std::string to_json(const TrainState& state);
TrainState train_state_from_json(const std::string& text, const Phase& phase, const std::string& origin);
std::string to_json(const PhaseHistory& history);
PhaseHistory phase_history_from_json(const std::string& text, const std::string& origin);

}  // namespace mrmf
