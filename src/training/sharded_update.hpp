// The optimizer's step in pieces (as ZeRO's first stage): each rank updates the piece of the parameters whose gradients
// it adds, and gives it to the others, where it would give them the sum. So no parameter of a long sum is updated
// twice. Each rank has the moments of its own pieces alone until they are needed whole: before a checkpoint, a probe,
// and a phase's end. Ranks of one node read the pieces in each other's memory, but for row-parallel weights.
#pragma once

#include <map>

#include "kernels/step.hpp"
#include "mpi/comm.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

class ShardedUpdate {
 public:
  struct Ranks {
    AllReduce& sums;   ///< sums of the gradients of whole weights, over...
    Comm& all;         ///< ...these
    Comm& same_block;  ///< sum the gradients of row-parallel weights (layers/parameter_layout.hpp)
  };
  /// Collective; keeps references. `sums` has no other update while this lives. requires: moments in the host's memory.
  ShardedUpdate(ModelState& model_state, const Ranks& ranks) : model_state_(model_state), ranks_(ranks) {
    ranks_.sums.share_memory(model_state_.model.shared());
  }
  ~ShardedUpdate() { ranks_.sums.stop_sharing(); }
  ShardedUpdate(const ShardedUpdate&) = delete;
  ShardedUpdate& operator=(const ShardedUpdate&) = delete;

  /// The update of the step whose sums begin next. `step` must live until they are done.
  const UpdateAt* bind(const StepContext& step) {
    step_ = &step;
    return &update_;
  }

  /// Every rank has all moments. Collective; costs nothing where no step was made since the last time.
  void complete();

 private:
  void update(const ArenaSpan& summed, const ArenaSpan& own);

  ModelState& model_state_;
  Ranks ranks_;
  const StepContext* step_ = nullptr;
  UpdateAt update_ = [this](const ArenaSpan& summed, const ArenaSpan& own) { update(summed, own); };
  struct Pieces {
    ArenaSpan summed, own;
  };
  std::map<Index, Pieces> pieces_;  // by the first float of what was summed at once; the same in every step
  bool whole_ = true;
};

}  // namespace mrmf
