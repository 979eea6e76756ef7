#include "layers/parameter_layout.hpp"

#include <algorithm>
#include <utility>

namespace mrmf {
namespace {

/// Calls visit(place in the whole weights, place in the box's own, floats) for features that lie side by side in both.
template <class Visit>
void for_runs(const Shape& whole, const Box& box, const Visit& visit) {
  const Extent& s = whole.spatial;
  MRMF_CHECK(contains({.count = s}, box), "columns of another layer's weights");
  const Index floats = box.count[2] * whole.channels;
  Index own = 0;
  for (Index row = 0; row < whole.n; ++row)
    for (Index i = box.first[0]; i < box.end(0); ++i)
      for (Index j = box.first[1]; j < box.end(1); ++j, own += floats)
        visit((((row * s[0] + i) * s[1] + j) * s[2] + box.first[2]) * whole.channels, own, floats);
}

}  // namespace

void RowParallelWeights::take(ConstSpan all, Span own) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(rank)),
           [&](Index from, Index to, Index floats) { std::copy_n(all.data() + from, floats, own.data() + to); });
}

void RowParallelWeights::put(int of_rank, ConstSpan own, Span all) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(of_rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(of_rank)),
           [&](Index to, Index from, Index floats) { std::copy_n(own.data() + from, floats, all.data() + to); });
}

ParameterLayout::ParameterLayout(const Network& network, std::vector<RowParallelWeights> cut) : cut_(std::move(cut)) {
  for (std::size_t i = 0; i < network.size(); ++i) {
    ArenaSpan place{size_, network.entry(i).params.count};
    if (const RowParallelWeights* own = this->cut(i)) {
      cuts_.push_back({size_, aligned(own->count(own->rank))});
      place.count += cuts_.back().count - own->whole.count();
    }
    size_ = aligned(place.end());
    places_.push_back(place);
  }
}

const RowParallelWeights* ParameterLayout::cut(std::size_t layer) const {
  const auto found = std::ranges::find(cut_, layer, &RowParallelWeights::layer);
  return found == cut_.end() ? nullptr : &*found;
}

Index ParameterLayout::bias(std::size_t layer) const {
  const RowParallelWeights* own = cut(layer);
  MRMF_CHECK(own != nullptr, "a layer with whole weights");
  return aligned(own->count(own->rank));
}

std::vector<ArenaSpan> ParameterLayout::counted() const {
  const bool first = cut_.empty() || cut_.front().rank == 0;
  return first ? std::vector<ArenaSpan>{{0, size_}} : cuts_;
}

void ParameterLayout::take(std::size_t layer, ConstSpan all, Span own) const {
  const RowParallelWeights* cut_here = cut(layer);
  if (cut_here == nullptr) {
    std::ranges::copy(all, own.begin());
    return;
  }
  const auto weights = static_cast<std::size_t>(cut_here->whole.count());
  cut_here->take(all.first(weights), span_at(own, {0, cut_here->count(cut_here->rank)}));
  std::ranges::copy(all.subspan(weights), own.subspan(static_cast<std::size_t>(bias(layer))).begin());
}

}  // namespace mrmf
