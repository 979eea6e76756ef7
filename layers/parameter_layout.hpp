// Where a rank's parameters lie in its arenas: parameters, gradients and moments have one layout. Without a grid it is
// that of the network. On a grid, the weights of the dense layer behind the flatten are row-parallel: each rank of a
// sample group has the columns of some features. All else is the same on every rank.
//
// What leaves the arenas, such as a checkpoint, has whole weights: what comes in is cut by take(), and put() puts the
// ranks' columns together (src/run/model_file.hpp).
#pragma once

#include <vector>

#include "layers/network.hpp"

namespace mrmf {

/// A dense layer's weights of which each rank of a grid has some columns: those of the features in its box.
struct RowParallelWeights {
  std::size_t layer = 0;     ///< in the network's list
  Shape whole;               ///< n: the rows, one per output; their columns are features, as positions and channels
  std::vector<Box> boxes{};  ///< by rank of the grid, no feature twice
  int rank = 0;              ///< this one

  Index columns(int of_rank) const {
    return product(boxes.at(static_cast<std::size_t>(of_rank)).count) * whole.channels;
  }
  Index count(int of_rank) const { return whole.n * columns(of_rank); }
  /// This rank's weights of whole ones, in the host's memory.
  void take(ConstSpan all, Span own) const;
  /// Puts those of a rank in their place of the whole ones.
  void put(int of_rank, ConstSpan own, Span all) const;
  bool operator==(const RowParallelWeights&) const = default;
};

class ParameterLayout {
 public:
  ParameterLayout() = default;
  /// `cut` in the order of layers; empty: the network's own places.
  explicit ParameterLayout(const Network& network, std::vector<RowParallelWeights> cut = {});

  Index size() const { return size_; }  ///< floats of an arena, padding included
  const ArenaSpan& of(std::size_t layer) const { return places_[layer]; }
  /// Null: every rank has all weights of this layer.
  const RowParallelWeights* cut(std::size_t layer) const;
  /// Floats before a layer's bias: row-parallel weights end on a 64-byte boundary, so that what is behind them has the
  /// same length on every rank.
  Index bias(std::size_t layer) const;
  /// Where this rank's row-parallel weights lie, from the first on; empty: it has whole ones.
  const std::vector<ArenaSpan>& cuts() const { return cuts_; }
  /// Ranks that cut the weights; 1: none are cut.
  int ranks() const { return cut_.empty() ? 1 : static_cast<int>(cut_.front().boxes.size()); }
  /// What this rank counts where values are added over a group, each once: the first rank what all have, too.
  std::vector<ArenaSpan> counted() const;
  /// A layer's own values of whole ones, in the host's memory.
  void take(std::size_t layer, ConstSpan all, Span own) const;

 private:
  std::vector<ArenaSpan> places_, cuts_;
  std::vector<RowParallelWeights> cut_;
  Index size_ = 0;
};

}  // namespace mrmf
