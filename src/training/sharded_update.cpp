#include "src/training/sharded_update.hpp"

#include <algorithm>

namespace mrmf {

void ShardedUpdate::update(const ArenaSpan& summed, const ArenaSpan& own) {
  Model& model = model_state_.model;
  model_state_.optimizer.update(*step_, model.params(), model.grads(), own);
  if (own.count == summed.count) return;  // every rank updates it
  pieces_.insert_or_assign(summed.first, Pieces{summed, own});
  whole_ = false;
}

// The sum of one rank's moments and the others' zeros.
void ShardedUpdate::complete() {
  if (whole_) return;
  const std::vector<ArenaSpan>& cuts = model_state_.model.layout().partitioned();
  for (const auto& [first, pieces] : pieces_) {
    const bool cut = std::ranges::any_of(cuts, [first = first](const ArenaSpan& one) { return one.first == first; });
    for (const Span all : model_state_.optimizer.moments()) {
      const Span moments = span_at(all, pieces.summed), own = span_at(all, pieces.own);
      std::fill(moments.data(), own.data(), 0.0F);
      std::fill(own.data() + own.size(), moments.data() + moments.size(), 0.0F);
      (cut ? ranks_.same_block : ranks_.all).sum(moments);
    }
  }
  whole_ = true;
}

}  // namespace mrmf
