#include "mpi/direct_sum.hpp"

#include <algorithm>
#include <utility>

namespace mrmf::mpi {

std::vector<float> SumMemory::take(std::size_t count) {
  const auto fits =
      std::ranges::find_if(free_, [&](const std::vector<float>& memory) { return memory.size() >= count; });
  if (fits == free_.end()) return std::vector<float>(count);
  std::vector<float> taken = std::move(*fits);
  free_.erase(fits);
  return taken;
}

DirectSum::DirectSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
                     Update update)
    : ranks_(ranks), tag_(tag), values_(values), update_(std::move(update)), memory_(std::move(memory)) {
  arrived_ = memory_->take(piece(ranks_.rank).size() * static_cast<std::size_t>(ranks_.size - 1));
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) receive(r, tag_, arrived(r));
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) send(r, tag_, piece(r));
}

std::span<float> DirectSum::piece(std::span<float> values, int rank) const {
  const auto place = [&](int r) {
    return values.size() * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks_.size);
  };
  return values.subspan(place(rank), place(rank + 1) - place(rank));
}

std::span<float> DirectSum::arrived(int rank) {
  const std::size_t count = piece(ranks_.rank).size();
  return std::span(arrived_).subspan(count * static_cast<std::size_t>(rank - (rank > ranks_.rank ? 1 : 0)), count);
}

void DirectSum::receive(int from, int tag, std::span<float> values) {
  check(MPI_Irecv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, from, tag, ranks_.comm,
                  under_way_.emplace_back("MPI_Irecv").begun()),
        "MPI_Irecv");
}

void DirectSum::send(int to, int tag, std::span<const float> values) {
  check(MPI_Isend(values.data(), static_cast<int>(values.size()), MPI_FLOAT, to, tag, ranks_.comm,
                  under_way_.emplace_back("MPI_Isend").begun()),
        "MPI_Isend");
}

// When all messages so far have arrived: adds this rank's piece, updates by it, and begins to exchange the results.
// Then it is done.
void DirectSum::advance() {
  under_way_.clear();
  if (added_) return;
  added_ = true;
  const std::span<float> own = piece(ranks_.rank);
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) std::ranges::transform(own, arrived(r), own.begin(), [](float a, float b) { return a + b; });
  memory_->give_back(std::move(arrived_));
  const bool updating = static_cast<bool>(update_.update);
  if (updating) update_.update(static_cast<std::size_t>(own.data() - values_.data()), own.size());
  const std::span<float> results = updating ? update_.values : values_;
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) receive(r, tag_ + 1, piece(results, r));
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) send(r, tag_ + 1, piece(results, ranks_.rank));
}

bool DirectSum::test() {
  while (!under_way_.empty()) {
    if (!std::ranges::all_of(under_way_, [](Request& request) { return request.test(); })) return false;
    advance();
  }
  return true;
}

void DirectSum::finish(double limit) {
  while (!under_way_.empty()) {
    for (Request& request : under_way_) request.finish(limit);
    advance();
  }
}

}  // namespace mrmf::mpi
