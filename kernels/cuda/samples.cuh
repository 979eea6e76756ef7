// Sums over the positions of each sample: for kernels whose "vectors" are those of all samples, sample by sample, and
// whose rows are the positions. So a sample's positions are shared out over blocks however few samples there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace mrmf::cuda {

/// Doubles of partial sums that any number of samples up to n needs; more samples may need fewer. of(n): the reduction.
template <class Of>
Index most_partials(Index n, int sums, const Of& of) {
  Index most = 0;
  for (Index m = 1; m <= n; ++m) most = std::max(most, of(m).partial_doubles(sums));
  return most;
}

struct Samples {
  Divider by_vectors;              // of a position
  std::size_t positions, vectors;  // of a sample, of a position

  Samples(Index sample_positions, Index of_position)
      : by_vectors(of_position),
        positions(static_cast<std::size_t>(sample_positions)),
        vectors(static_cast<std::size_t>(of_position)) {}

  /// A sample and one of its vectors of channels.
  struct Column {
    std::uint32_t sample, vector;
    std::size_t first, stride;

    /// The vector's number in memory at a position.
    MRMF_HD std::size_t at(std::uint32_t position) const { return first + position * stride; }
  };
  MRMF_HD Column column(std::uint32_t index) const {
    std::uint32_t sample = index;
    const std::uint32_t vector = by_vectors.take(sample);
    return {sample, vector, sample * positions * vectors + vector, vectors};
  }

  /// K sums per sample and stored channel: finish() gets (sample * vectors + vector) * width + lane.
  Reduction reduction(Index n, int width, double* partials) const {
    const Index columns = n * static_cast<Index>(vectors);
    return {static_cast<Index>(positions), columns, columns * width, partials};
  }
};

}  // namespace mrmf::cuda
