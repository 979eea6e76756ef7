#include "src/training/sharded_update.hpp"

#include <algorithm>

namespace mrmf {

void ShardedUpdate::update(const Place& summed, const Place& place) {
  Model& model = model_state_.model;
  model_state_.optimizer.update(*step_, model.params(), model.grads(), place);
  if (place.count == summed.count) return;  // every rank updates it
  pieces_.insert_or_assign(summed.first, Pieces{summed, place});
  whole_ = false;
}

// The sum of one rank's moments and the others' zeros.
void ShardedUpdate::complete() {
  if (whole_) return;
  const std::vector<Place>& cuts = model_state_.model.layout().cuts();
  for (const auto& [first, pieces] : pieces_) {
    const bool cut = std::ranges::any_of(cuts, [first = first](const Place& one) { return one.first == first; });
    for (const Span all : model_state_.optimizer.moments()) {
      const Span moments = part(all, pieces.summed), own = part(all, pieces.own);
      std::fill(moments.data(), own.data(), 0.0F);
      std::fill(own.data() + own.size(), moments.data() + moments.size(), 0.0F);
      (cut ? ranks_.same_block : ranks_.all).sum(moments);
    }
  }
  whole_ = true;
}

}  // namespace mrmf
