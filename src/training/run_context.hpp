// Context of training: the objects it works with, passed by reference through pipeline, stages and training loop. One
// of them is where trainers of a tournament meet.
#pragma once

#include <functional>
#include <optional>

#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/data/data.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_log.hpp"
#include "src/run/signals.hpp"
#include "src/training/data_and_spatial_parallel.hpp"

namespace mrmf {

// Where trainers of a tournament meet (src/tournament): between two steps of a phase, as the training loop sees it.

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

/// The means to save a run under way.
struct Saving {
  Checkpoints& checkpoints;
  SavePolicy& times;
};

class Meetings;

/// Owned by the pipeline's caller.
struct RunContext {
  Backend& backend;
  Comm& team;
  Data& data;
  RunLog& log;
  Saving* saving = nullptr;  ///< null: nothing is saved
  /// Computes shard by shard: the same bits on any number of ranks and threads
  /// (src/training/deterministic_replicas.hpp).
  bool shard_replicas = false;
  StageGrids* grids = nullptr;   ///< grids of ranks that share samples; null: each rank has its own
  SavePolicy* stops = nullptr;   ///< if nothing is saved: what still stops on a signal; null: nothing does
  Meetings* meetings = nullptr;  ///< a tournament's, for its trainers; null: there is none. Probes and teams have none

  /// The same context for a team of its ranks, with another log.
  RunContext for_team(Comm& team_of_it, RunLog& log_of_it) const {
    return {backend, team_of_it, data, log_of_it, saving, shard_replicas, nullptr, stops};
  }
  /// The same context for work that leaves nothing behind, but stops on a signal as the rest does.
  RunContext without_saving(RunLog& silent) const {
    return {backend, team, data, silent, nullptr, shard_replicas, grids, saving != nullptr ? &saving->times : stops};
  }
  /// The ranks that share each sample at a resolution; null: each rank has its own.
  SampleGrid* grid(const Extent& resolution) const { return grids != nullptr ? grids->at(resolution) : nullptr; }
  /// The ranks that share out the samples at a resolution.
  Comm& data_parallel_team(const Extent& resolution) const {
    SampleGrid* const shared = grid(resolution);
    return shared != nullptr ? shared->same_block() : team;
  }
  /// Makes the data ready at a resolution; returns the seconds it took. Collective.
  double make_data_ready(const Extent& resolution) const {
    if (grids != nullptr) data.load(grids->share(resolution));
    return data.make_ready(resolution);
  }
};

}  // namespace mrmf
