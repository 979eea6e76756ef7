#include "mpi/message_sum.hpp"

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

MessageSum::MessageSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
                       SumUpdate update)
    : ReduceScatterSum(ranks, tag, values, std::move(update)), memory_(std::move(memory)) {
  arrived_ = memory_->take(own_piece().size() * static_cast<std::size_t>(ranks.size - 1));
  for_each_other([&](int r) { receive(r, tag, arrived(r)); });
  for_each_other([&](int r) { send(r, tag, piece(values, r)); });
}

std::span<float> MessageSum::arrived(int rank) {
  const std::size_t count = own_piece().size();
  return std::span(arrived_).subspan(count * static_cast<std::size_t>(rank - (rank > this->rank() ? 1 : 0)), count);
}

// First the others' values have arrived, then their results.
void MessageSum::advance() {
  if (added_) return;
  added_ = true;
  for_each_other([&](int r) { add(arrived(r)); });
  memory_->give_back(std::move(arrived_));
  update();
  for_each_other([&](int r) { receive(r, tag() + 1, piece(results(), r)); });
  for_each_other([&](int r) { send(r, tag() + 1, piece(results(), rank())); });
}

}  // namespace mrmf::mpi
