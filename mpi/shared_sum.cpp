#include "mpi/shared_sum.hpp"

#include <algorithm>
#include <utility>

#include "kernels/check.hpp"

namespace mrmf::mpi {

SharedSum::SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers, SumUpdate update)
    : SumByPieces(ranks, tag, values, std::move(update)),
      peers_(peers),
      places_(static_cast<std::size_t>(ranks.size)),
      done_(static_cast<std::size_t>(ranks.size), 1) {
  const auto own = peers.place_of(values), of_results = peers.place_of(results());
  MRMF_CHECK(own && of_results, "a sum in shared memory is of what is shared");
  const auto places = [&](int r) { return std::span(places_).subspan(static_cast<std::size_t>(r), 1); };
  places(rank()).front() = {*own, *of_results};
  for_each_other([&](int r) { receive(r, tag, places(r)); });
  for_each_other([&](int r) { send(r, tag, places(rank())); });
}

std::span<const float> SharedSum::of(int rank, std::size_t which, std::span<float> piece) const {
  PeerMemory::Place place = places_.at(static_cast<std::size_t>(rank)).at(which);
  place.first += static_cast<std::uint64_t>(piece.data() - (which == 0 ? values() : results()).data());
  return peers_.of(rank, place, piece.size());
}

// First all ranks' values are complete, then their results.
void SharedSum::advance() {
  if (round_ == Round::results) {
    for_each_other([&](int r) {
      const std::span<float> theirs = piece(results(), r);
      std::ranges::copy(of(r, 1, theirs), theirs.begin());
    });
    return;
  }
  round_ = Round::results;
  for_each_other([&](int r) { add(of(r, 0, own_piece())); });
  update();
  const auto done = [&](int r) { return std::span(done_).subspan(static_cast<std::size_t>(r), 1); };
  for_each_other([&](int r) { receive(r, tag() + 1, done(r)); });
  for_each_other([&](int r) { send(r, tag() + 1, done(rank())); });
}

}  // namespace mrmf::mpi
