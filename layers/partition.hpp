// How one sample lies on several ranks: each has a block of the positions of every activation, as far as the network
// has positions (paper: none; the spatial parallelism of LBANN and Distconv).
//
// The ranks that share a sample form a grid of blocks. The input's positions are cut evenly, and every cut below
// follows from it: an output position is where the middle of its window is. A window that reaches over a cut needs its
// neighbours' positions, the halo. Blocks may be uneven, and a halo may reach further than the next block. What a rank
// computes is an ordinary layer on the positions that it needs, with padding only where these end at the sample's
// border, so backends know nothing of grids.
//
// A flatten in front of dense layers does nothing: each rank keeps its positions, and the dense layers' weights are cut
// by them (layers/memory_layout.hpp). In front of anything else it gathers all positions on every rank. A dense
// layer that finds all features there has its weights cut evenly. A locally connected layer's weights lie where its
// output's positions lie.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/memory_layout.hpp"
#include "layers/network.hpp"

namespace mrmf {

/// The blocks of a sample along its axes, right-aligned as an Extent. Ranks count along the last axis first.
struct Grid {
  Extent blocks{1, 1, 1};
  int ranks() const { return static_cast<int>(product(blocks)); }
  Extent coordinates(int rank) const;    ///< coordinates of the rank's block
  std::string text(int axes = 1) const;  ///< as run.grid writes it for so many axes: "[2]", "[1, 2, 1]"
  bool operator==(const Grid&) const = default;
};

/// The positions of every block along one axis.
struct Interval {
  Index first = 0, count = 0;
  Index end() const { return first + count; }
  bool operator==(const Interval&) const = default;
};

/// A tensor's positions on the blocks of a grid: along each axis, those of its blocks.
struct BlockPositions {
  std::array<std::vector<Interval>, 3> axes;
  Box block(const Extent& coordinates) const;
  bool operator==(const BlockPositions&) const = default;
};

/// Where a tensor is.
struct Placement {
  BlockPositions owned;   ///< no position twice; or all of them everywhere
  BlockPositions stored;  ///< what is stored: what is owned, and maybe positions beside it; of the input what is read
  bool margin_valid = true;  ///< whether the values beside it are right; else they mean nothing
  bool whole = false;        ///< every rank has all of it
  bool unflattened = false;  ///< flat in the network; here still the positions of the flatten's input
};

/// A layer on the blocks of a grid.
struct LayerPlacement {
  std::vector<BlockPositions> needs;  ///< what it needs of each input
  Placement output;
  std::array<std::vector<Interval>, 3> pads{};  ///< pads of windows by block: zeros before (first) and after (count)
  BlockPositions fields{};  ///< positions that have weights of their own: of the output, or of rica's features
};

class Partition {
 public:
  /// A layer with fewer positions than blocks is computed whole by every rank, as all behind it. ConfigError where
  /// later layers have more positions again, and for more blocks than the input has positions, with the layer, the axis
  /// and the largest grid that works; for a layer that cannot be cut.
  Partition(const Network& network, const Grid& grid);

  const Grid& grid() const { return grid_; }
  /// Where the network's input (0) is, or the output of layer number - 1. The input comes as its readers need it, if
  /// they need the same: files give any positions.
  const Placement& tensor(std::size_t number) const { return number == 0 ? input_ : layers_[number - 1].output; }
  const LayerPlacement& layer(std::size_t i) const { return layers_[i]; }
  /// Whether input number i of a layer is there as the layer needs it, without any message.
  bool at_hand(std::size_t layer, std::size_t i) const;
  /// The layer's spec and the shape of its input number i, on the block with these coordinates.
  LayerSpec spec_at(std::size_t layer, const Extent& coordinates) const;
  Shape input_at(std::size_t layer, std::size_t i, const Extent& coordinates) const;
  /// What make_layer() needs to know of the layer's block.
  LayerPosition position_at(std::size_t layer, const Extent& coordinates) const;
  /// The weights of the dense layers behind a flatten, and of locally connected layers.
  std::vector<PartitionedWeights> cut_weights(int rank) const;
  /// The share of a sample's positions of the output that a rank has; where every rank has all, each counts its part.
  double share_at(const Extent& coordinates) const;

 private:
  void build();
  void place_layer(std::size_t layer);
  void place_flat(std::size_t layer, LayerPlacement& placement);
  bool stays_cut(std::size_t number) const;
  bool behind_flatten(std::size_t layer) const;
  void cut_positions(std::size_t layer);
  void cut_columns(std::size_t layer);
  Shape shape_of(std::size_t number) const;
  void gather(std::size_t layer, LayerPlacement& placement) const;
  bool grows_behind(std::size_t layer) const;
  /// A layer, and which of its inputs.
  struct Reader {
    std::size_t layer, input;
  };
  std::vector<Reader> readers(std::size_t number) const;
  std::optional<BlockPositions> common_needs(const std::vector<Reader>& readers) const;
  void read_margins();
  void hold_margins_of_norm();
  void check_placement() const;

  const Network* network_;
  Grid grid_;
  Placement input_;
  std::vector<LayerPlacement> layers_;
  std::vector<PartitionedWeights> cut_weights_;
};

}  // namespace mrmf
