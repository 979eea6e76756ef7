// A sum by pieces, with an update, whose ranks read the pieces in each other's memory. Messages only say where, and
// when. Private to mpi/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/peer_memory.hpp"
#include "mpi/sum_by_pieces.hpp"

namespace mrmf::mpi {

/// No rank writes to what others may read: to its values before all have sent their second message, which says that
/// they have read them; to its results before their next sum's first message.
class SharedSum final : public SumByPieces {
 public:
  /// Begins. requires: values and results in the blocks that `peers` was made for. Keeps a reference to it.
  SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers, SumUpdate update);

 private:
  /// Where a rank's values and results lie in its blocks.
  using Places = std::array<PeerMemory::Place, 2>;

  void advance() override;
  std::span<const float> of(int rank, std::size_t which, std::span<float> piece) const;

  const PeerMemory& peers_;
  std::vector<Places> places_;  // by rank
  std::vector<char> done_;      // by rank: what their second message says
  enum class Round { values, results } round_ = Round::values;
};

}  // namespace mrmf::mpi
