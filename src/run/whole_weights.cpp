#include "src/run/whole_weights.hpp"

#include <algorithm>

#include "kernels/check.hpp"

namespace mrmf {

void gather(const CutWeights& cut, ConstSpan own, Comm& group, Span all) {
  MRMF_CHECK(std::ssize(cut.boxes) == group.size() && cut.rank == group.rank(), "weights that another group cuts");
  for (int rank = 0; rank < group.size(); ++rank) {
    std::vector<float> values(static_cast<std::size_t>(cut.count(rank)));
    if (rank == group.rank()) std::ranges::copy(own, values.begin());
    group.broadcast(values, rank);
    cut.put(rank, values, all);
  }
}

std::vector<float> WholeWeights::read(ConstSpan arena) const {
  std::vector<float> own(arena.size());
  backend.read(arena, own);
  if (layout.cuts().empty()) return own;
  std::vector<float> all(static_cast<std::size_t>(network.params_size()));
  for (std::size_t i = 0; i < network.size(); ++i) {
    const Span here = part(own, layout.of(i)), there = part(all, network.entry(i).params);
    const CutWeights* cut = layout.cut(i);
    if (cut == nullptr) {
      std::ranges::copy(here, there.begin());
      continue;
    }
    MRMF_CHECK(group != nullptr, "weights that are cut over no ranks");
    gather(*cut, part(here, {0, cut->count(cut->rank)}), *group, part(there, {0, cut->whole.count()}));
    const Span bias = here.subspan(static_cast<std::size_t>(layout.bias(i)));
    std::ranges::copy(bias, there.last(bias.size()).begin());
  }
  return all;
}

void WholeWeights::write(ConstSpan all, Span arena) const {
  if (layout.cuts().empty()) return backend.write(all, arena);
  std::vector<float> own(arena.size());
  for (std::size_t i = 0; i < network.size(); ++i) {
    const Place& place = network.entry(i).params;
    layout.take(i, all.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.count)),
                part(own, layout.of(i)));
  }
  backend.write(own, arena);
}

}  // namespace mrmf
