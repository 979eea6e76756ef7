// Where tensors lie in a model's arenas: activations and their gradients, which share memory, and parameters.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "layers/layer.hpp"
#include "layers/network.hpp"

namespace mrmf {

// Where activations and their gradients lie: all in one arena, laid out once. Two of them share memory when the one is
// done with before the other is written.
//
// A training step has 2 U + 1 moments for U units: unit u's forward at u, the loss at U, unit u's backward at 2 U - u.
// A tensor takes its span from the moment that writes it to the last that reads it.
//
// What a concat joins is written into its slice of the concat's output at once, where the unit that writes it can do so
// and all that read it can read it there. Backward hands out slices of dy likewise. What a halo exchange reads is
// written between its halo margins, if it offers that; its span is a tensor like any other, which all units can write
// and read.

/// What the layout needs to know of a unit.
struct UnitFacts {
  std::vector<std::size_t> reads;  ///< as in Wiring, of units
  Index floats = 0;                ///< floats of its output
  bool in_place = false, identity = false, reads_output = false, reads_input = true, dx_is_dy = false;  ///< Footprint
  bool shortcut = false;                ///< Unit: the second of `reads`
  AcceptedSlices accepted_slices = {};  ///< Footprint
  std::vector<Index> parts = {};        ///< Footprint
  std::optional<Index> margin = {};     ///< Footprint
  /// Whether backward reads an output.
  bool reads_in_backward(std::size_t number) const {
    return reads_input && std::ranges::count(reads.begin(), reads.end() - (shortcut ? 1 : 0), number) > 0;
  }
};

/// Where backward puts the gradient of one input. The gradient of an output that several units read is their sum.
struct InputGradient {
  ArenaSpan dx;      ///< written by the unit; empty for the network's input, whose gradient nobody wants
  ArenaSpan before;  ///< the sum of what later units gave; empty if this is the first
  ArenaSpan sum;     ///< the sum of both; may be the memory of one of them
};

/// The memory of one unit.
struct UnitMemory {
  bool in_place = false;  ///< the output is written over an input
  ArenaSpan output;
  ArenaSpan dy;                   ///< the gradient of the output, complete when the unit's backward begins
  std::vector<InputGradient> dx;  ///< one for each input
};

struct ArenaLayout {
  std::vector<UnitMemory> units;
  Index floats = 0;    ///< floats of the arena
  Index separate = 0;  ///< if every tensor had memory of its own
};

/// The last unit's output is the network's: it stays until the step's end. Every other output must have a reader.
ArenaLayout lay_out_arena(const std::vector<UnitFacts>& units);

/// Floats that are needed from one moment to another, both included.
struct Lifetime {
  Index floats = 0;
  std::size_t begin = 0, end = 0;
  Index first = 0;  ///< its offset in the arena
};
/// Gives every block an offset on a 64-byte boundary such that no two lie on one another at any moment. Returns the
/// floats of the arena.
Index lay_out_blocks(std::vector<Lifetime>& blocks);

// Where a rank's parameters lie in its arenas: parameters, gradients and moments have one layout, but that there are no
// gradients of layers that are updated in place. Without a grid it is that of the network. On a grid, the weights of
// the dense layer behind the flatten are row-parallel: each rank of a sample group has the columns of some features. Of
// a locally connected layer, a rank has the weights and biases of its positions. All else is the same on every rank.
//
// What leaves the arenas, such as a checkpoint, has whole weights: what comes in is cut by take(), and put() puts the
// ranks' parts together (src/run/model_file.hpp).

/// Weights of which each rank of a grid has some: of a dense layer the columns of the features in its box, of a locally
/// connected one those of the output positions in its box.
struct PartitionedWeights {
  std::size_t layer = 0;   ///< in the network's list
  std::size_t tensor = 0;  ///< which of the layer's parameters; partitioned ones come first
  /// Dense: n rows, one per output; their columns are features, as positions and channels. Locally connected: n is 1,
  /// and each position has so many weights, or biases, as there are channels here.
  Shape whole;
  std::vector<Box> boxes{};  ///< by rank of the grid, no position twice
  int rank = 0;              ///< this one

  Index columns(int of_rank) const {
    return product(boxes.at(static_cast<std::size_t>(of_rank)).count) * whole.channels;
  }
  Index count(int of_rank) const { return whole.n * columns(of_rank); }
  bool is_untied() const { return whole.n == 1; }  ///< each output position has values of its own
  /// This rank's weights of whole ones, in the host's memory.
  void take(ConstSpan all, Span own) const;
  /// Puts those of a rank where they lie in the whole ones.
  void put(int of_rank, ConstSpan own, Span all) const;
  bool operator==(const PartitionedWeights&) const = default;
};

class ParameterLayout {
 public:
  ParameterLayout() = default;
  /// `cut` in the order of layers and their tensors; empty: the network's own spans.
  /// in_place: layers that are updated in place; empty: none.
  explicit ParameterLayout(const Network& network, std::vector<PartitionedWeights> cut = {},
                           std::vector<bool> in_place = {});

  Index size() const { return size_; }                 ///< floats of an arena, padding included
  Index gradients() const { return gradients_size_; }  ///< floats of the gradients' arena, likewise
  const ArenaSpan& gradients_of(std::size_t layer) const { return gradients_[layer]; }
  bool in_place(std::size_t layer) const { return layer < in_place_.size() && in_place_[layer]; }
  /// Parameters that have gradients, as few stretches as there are, and where their gradients begin.
  struct Stretch {
    ArenaSpan params;
    Index gradients = 0;
  };
  const std::vector<Stretch>& with_gradients() const { return with_gradients_; }
  /// Where the gradients of partitioned weights lie.
  const std::vector<ArenaSpan>& partitioned_gradients() const { return gradient_cuts_; }
  const ArenaSpan& params_of(std::size_t layer) const { return param_spans_[layer]; }
  /// Null: every rank has all of this tensor of the layer.
  const PartitionedWeights* partitioned(std::size_t layer, std::size_t tensor = 0) const;
  /// A partitioned tensor: where this rank's share is among the layer's parameters, and where the whole one is among
  /// the whole ones.
  struct PartitionedTensor {
    const PartitionedWeights* cut;
    ArenaSpan own, whole;
  };
  /// The partitioned tensors of a layer, one after the other.
  std::vector<PartitionedTensor> partitioned_tensors(std::size_t layer) const;
  /// Floats before what is not partitioned: partitioned weights end on a 64-byte boundary, so that what is behind them
  /// has the same length on every rank.
  Index behind_partitioned(std::size_t layer) const;
  /// Where this rank's partitioned weights lie, layer by layer, from the first on; empty: it has whole ones.
  const std::vector<ArenaSpan>& partitioned() const { return cuts_; }
  /// Ranks that partition the weights; 1: none are partitioned.
  int ranks() const { return cut_.empty() ? 1 : static_cast<int>(cut_.front().boxes.size()); }
  /// What this rank counts where values are added over a group, each once: the first rank what all have, too.
  std::vector<ArenaSpan> counted() const;
  /// A layer's own values of whole ones, in the host's memory.
  void take(std::size_t layer, ConstSpan all, Span own) const;

 private:
  std::vector<ArenaSpan> param_spans_, cuts_, gradients_, gradient_cuts_;
  std::vector<Stretch> with_gradients_;
  std::vector<PartitionedWeights> cut_;
  std::vector<bool> in_place_;
  Index size_ = 0, gradients_size_ = 0;
};

}  // namespace mrmf
