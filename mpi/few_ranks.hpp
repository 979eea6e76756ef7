// Sums over few ranks of a CPU, which the ranks add by reduce-scatter (mpi/reduce_scatter.hpp), and the memory that
// these need.
#pragma once

#include <cstddef>

namespace mrmf::mpi {

constexpr int few_ranks = 8;
constexpr std::size_t long_sum = std::size_t{1} << 14;  ///< values from which on few ranks add them by reduce-scatter

/// Whether so many ranks of a CPU add long sums by reduce-scatter, each piece on one rank: where few ranks add in MPI's
/// order.
constexpr bool adds_by_reduce_scatter(int ranks, bool any_order = false) {
  return ranks > 1 && ranks <= few_ranks && !any_order;
}

/// Floats that a rank keeps for sums of so many values, if all their parts are under way at once: its piece of the
/// others' values. Ranks that read them in each other's memory keep none. None for other numbers of ranks, where MPI
/// takes and frees what it needs.
constexpr std::size_t floats_of_sums(std::size_t values, int ranks) {
  if (!adds_by_reduce_scatter(ranks) || values < long_sum) return 0;
  const auto all = static_cast<std::size_t>(ranks);
  return (values + all - 1) / all * (all - 1);
}

}  // namespace mrmf::mpi
