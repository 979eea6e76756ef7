#include "mpi/reduce_scatter.hpp"

#include <algorithm>
#include <utility>

namespace mrmf::mpi {

ReduceScatterSum::ReduceScatterSum(const Ranks& ranks, int tag, std::span<float> values, SumUpdate update)
    : ranks_(ranks), tag_(tag), values_(values), update_(std::move(update)) {}

std::span<float> ReduceScatterSum::piece(std::span<float> values, int rank) const {
  const auto place = [&](int r) {
    return values.size() * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks_.size);
  };
  return values.subspan(place(rank), place(rank + 1) - place(rank));
}

void ReduceScatterSum::for_each_other(const std::function<void(int rank)>& action) const {
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) action(r);
}

void ReduceScatterSum::add(std::span<const float> piece) const {
  const std::span<float> own = own_piece();
  std::ranges::transform(own, piece, own.begin(), [](float a, float b) { return a + b; });
}

void ReduceScatterSum::update() const {
  const std::span<float> own = own_piece();
  if (update_.update) update_.update(static_cast<std::size_t>(own.data() - values_.data()), own.size());
}

// Messages with the same tag arrive in the order in which they were sent.
void ReduceScatterSum::receive_bytes(int from, int tag, std::span<std::byte> bytes) {
  for_each_chunk(bytes, ranks_.most * sizeof(float), [&](std::span<std::byte> part) {
    check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag, ranks_.comm,
                    under_way_.emplace_back("MPI_Irecv").begun()),
          "MPI_Irecv");
  });
}

void ReduceScatterSum::send_bytes(int to, int tag, std::span<const std::byte> bytes) {
  for_each_chunk(bytes, ranks_.most * sizeof(float), [&](std::span<const std::byte> part) {
    check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, ranks_.comm,
                    under_way_.emplace_back("MPI_Isend").begun()),
          "MPI_Isend");
  });
}

bool ReduceScatterSum::test() {
  while (!under_way_.empty()) {
    if (!std::ranges::all_of(under_way_, [](Request& request) { return request.test(); })) return false;
    under_way_.clear();
    advance();
  }
  return true;
}

void ReduceScatterSum::finish(const WaitLimit& limit) {
  while (!under_way_.empty()) {
    for (Request& request : under_way_) request.finish(limit);
    under_way_.clear();
    advance();
  }
}

}  // namespace mrmf::mpi
