// Where trainers of a tournament meet (src/tournament): between two steps of a phase, as the training loop sees it.
#pragma once

#include <functional>
#include <optional>

#include "kernels/tensor.hpp"
#include "src/run/train_state.hpp"

namespace mrmf {

struct PhaseContext;

/// What Meetings keep from one meeting of a phase to the next.
struct MeetingState {
  virtual ~MeetingState() = default;
};

class Meetings {
 public:
  virtual ~Meetings() = default;
  /// Steps of the plan's last phase, all epochs together, after which the next meeting is; none: there are no more.
  virtual std::optional<Index> next(const TrainState& state) const = 0;
  /// Meets the others, however long that takes, and may change the phase's model, moments, and rates. Collective over
  /// the team. `save` saves the state as it is. Throws Stopped when another trainer was stopped; this one is then
  /// saved.
  virtual void meet(PhaseContext& context, TrainState& state, const std::function<void()>& save) = 0;
  /// The trainer was saved since its last meeting.
  virtual void saved() = 0;
  /// The trainer has trained, and is saved: waits until all others have. Throws Stopped when one of them was stopped.
  virtual void end() = 0;
};

}  // namespace mrmf
