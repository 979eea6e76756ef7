#include "mpi/shared_sum.hpp"

#include <algorithm>
#include <utility>

#include "kernels/check.hpp"

namespace mrmf::mpi {

SharedSum::SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers, SumUpdate update)
    : ReduceScatterSum(ranks, tag, values, std::move(update)),
      peers_(peers),
      addresses_(static_cast<std::size_t>(ranks.size)),
      done_(static_cast<std::size_t>(ranks.size), 1) {
  const auto of_values = peers.address_of(values), of_results = peers.address_of(results());
  MRMF_CHECK(of_values && of_results, "a sum in shared memory is of what is shared");
  const auto addresses = [&](int r) { return std::span(addresses_).subspan(static_cast<std::size_t>(r), 1); };
  addresses(rank()).front() = {*of_values, *of_results};
  for_each_other([&](int r) { receive(r, tag, addresses(r)); });
  for_each_other([&](int r) { send(r, tag, addresses(rank())); });
}

std::span<const float> SharedSum::values_of(int rank, std::span<const float> piece) const {
  PeerMemory::Address address = addresses_.at(static_cast<std::size_t>(rank)).values;
  address.first += static_cast<std::uint64_t>(piece.data() - values().data());
  return peers_.of(rank, address, piece.size());
}

std::span<const float> SharedSum::results_of(int rank, std::span<const float> piece) const {
  PeerMemory::Address address = addresses_.at(static_cast<std::size_t>(rank)).results;
  address.first += static_cast<std::uint64_t>(piece.data() - results().data());
  return peers_.of(rank, address, piece.size());
}

// First all ranks' values are complete, then their results.
void SharedSum::advance() {
  if (round_ == Round::results) {
    for_each_other([&](int r) {
      const std::span<float> theirs = piece(results(), r);
      std::ranges::copy(results_of(r, theirs), theirs.begin());
    });
    return;
  }
  round_ = Round::results;
  for_each_other([&](int r) { add(values_of(r, own_piece())); });
  update();
  const auto done = [&](int r) { return std::span(done_).subspan(static_cast<std::size_t>(r), 1); };
  for_each_other([&](int r) { receive(r, tag() + 1, done(r)); });
  for_each_other([&](int r) { send(r, tag() + 1, done(rank())); });
}

}  // namespace mrmf::mpi
