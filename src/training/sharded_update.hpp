// The optimizer's step in pieces: each rank updates the piece of the parameters whose gradients it adds, and the others
// receive them, where they would receive the sum. So no parameter is updated twice. Each rank has the moments of its
// own pieces alone until they are needed whole: before a checkpoint, a look, and a phase's end.
#pragma once

#include <map>

#include "mpi/comm.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

class ShardedUpdate {
 public:
  /// Keeps references. `ranks` sum the gradients of all weights but those that are cut, whose gradients are summed by
  /// the ranks with the same block (layers/parameter_layout.hpp). requires: moments in the host's memory.
  ShardedUpdate(ModelState& model_state, Comm& ranks, Comm& same_block)
      : model_state_(model_state), ranks_(ranks), same_block_(same_block) {}
  ShardedUpdate(const ShardedUpdate&) = delete;
  ShardedUpdate& operator=(const ShardedUpdate&) = delete;

  /// Of the step whose sums begin next. `step` must live until they are done.
  const UpdateAt* of(const Step& step) {
    step_ = &step;
    return &update_;
  }

  /// Every rank has all moments. Collective; costs nothing where no step was made since the last time.
  void complete();

 private:
  void update(const Place& summed, const Place& place);

  ModelState& model_state_;
  Comm& ranks_;
  Comm& same_block_;
  const Step* step_ = nullptr;
  UpdateAt update_ = [this](const Place& summed, const Place& place) { update(summed, place); };
  struct Pieces {
    Place summed, own;
  };
  std::map<Index, Pieces> pieces_;  // by the first float of what was summed at once; the same in every step
  bool whole_ = true;
};

}  // namespace mrmf
