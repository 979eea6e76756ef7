#include "src/run/whole_weights.hpp"

#include <algorithm>

#include "kernels/check.hpp"

namespace mrmf {

void gather(const RowParallelWeights& cut, ConstSpan own, Comm& sample_group, Span all) {
  MRMF_CHECK(std::ssize(cut.boxes) == sample_group.size() && cut.rank == sample_group.rank(),
             "weights that another group cuts");
  for (int rank = 0; rank < sample_group.size(); ++rank) {
    std::vector<float> values(static_cast<std::size_t>(cut.count(rank)));
    if (rank == sample_group.rank()) std::ranges::copy(own, values.begin());
    sample_group.broadcast(values, rank);
    cut.put(rank, values, all);
  }
}

std::vector<float> WholeWeights::read(ConstSpan arena) const {
  std::vector<float> own(arena.size());
  backend.read(arena, own);
  if (layout.cuts().empty()) return own;
  std::vector<float> all(static_cast<std::size_t>(network.params_size()));
  for (std::size_t i = 0; i < network.size(); ++i) {
    const Span here = span_at(own, layout.of(i)), there = span_at(all, network.entry(i).params);
    const RowParallelWeights* cut = layout.cut(i);
    if (cut == nullptr) {
      std::ranges::copy(here, there.begin());
      continue;
    }
    MRMF_CHECK(sample_group != nullptr, "weights that are cut over no ranks");
    gather(*cut, span_at(here, {0, cut->count(cut->rank)}), *sample_group, span_at(there, {0, cut->whole.count()}));
    const Span bias = here.subspan(static_cast<std::size_t>(layout.bias(i)));
    std::ranges::copy(bias, there.last(bias.size()).begin());
  }
  return all;
}

void WholeWeights::write(ConstSpan all, Span arena) const {
  if (layout.cuts().empty()) return backend.write(all, arena);
  std::vector<float> own(arena.size());
  for (std::size_t i = 0; i < network.size(); ++i) {
    const ArenaSpan& place = network.entry(i).params;
    layout.take(i, all.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.count)),
                span_at(own, layout.of(i)));
  }
  backend.write(own, arena);
}

}  // namespace mrmf
