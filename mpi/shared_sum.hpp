// A sum by reduce-scatter, with an update, whose ranks read the pieces in each other's memory. Messages only say where,
// and when. Private to mpi/.
#pragma once

#include <span>
#include <vector>

#include "mpi/peer_memory.hpp"
#include "mpi/reduce_scatter.hpp"

namespace mrmf::mpi {

/// No rank writes to what others may read: to its values before all have sent their second message, which says that
/// they have read them; to its results before their next sum's first message.
class SharedSum final : public ReduceScatterSum {
 public:
  /// Begins. requires: values and results in the blocks that `peers` was made for. Keeps a reference to it.
  SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers, SumUpdate update);

 private:
  /// Where a rank's values and results lie.
  struct Addresses {
    PeerMemory::Address values, results;
  };

  void advance() override;
  /// What another rank has at the place of a piece of this rank's values, or of its results.
  std::span<const float> values_of(int rank, std::span<const float> piece) const;
  std::span<const float> results_of(int rank, std::span<const float> piece) const;

  const PeerMemory& peers_;
  std::vector<Addresses> addresses_;  // by rank
  std::vector<char> done_;            // by rank: what their second message says
  enum class Round { values, results } round_ = Round::values;
};

}  // namespace mrmf::mpi
