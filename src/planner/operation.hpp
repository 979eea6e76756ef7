// What a rank computes in a training step, as cost models see it: the units of an execution on one block of a grid,
// each with its work, and what it exchanges with other ranks.
#pragma once

#include <string>
#include <vector>

#include "layers/execution.hpp"

namespace mrmf {

/// One unit of an execution: a layer, a fused run of layers, or a halo exchange. Amounts are those of one row.
struct Operation {
  std::string key;             ///< kinds and settings, without positions: "conv 16->32 3x3x3+batch_norm 32"
  std::string layer, last;     ///< names of its first and last layer, for people
  Shape in, out;               ///< on this block
  Shape whole;                 ///< `out` of whole samples; of a layer
  double flop = 0;             ///< forward; a multiply-add counts as two; convolution and dense only
  double elements = 0;         ///< elements of inputs and outputs
  Index parameters = 0;        ///< whatever the number of rows
  bool weighted = false;       ///< its backward has two passes, for data and for weights
  bool data_gradient = true;   ///< false: its input is the network's
  bool gives_no_work = false;  ///< a flatten
  int sums = 0;                ///< sums of statistics, or of products, over ranks, in forward and again in backward
  std::vector<double> sent;    ///< a halo exchange: floats to each other rank that gets some

  bool halo_exchange() const { return layer.empty(); }
  /// What its time grows with among operations of one key.
  double work() const { return flop > 0 ? flop : elements; }
};

/// A block's share of a step.
struct BlockWork {
  std::vector<Operation> operations;
  Index input = 0, output = 0;  ///< floats of a row
};

/// The operations of the rank with this block. `settings` are those that `execution` was planned with.
BlockWork block_work(const Network& network, const Execution& execution, const ModelSettings& settings);

/// Blocks that stand for all of a grid: of those with the same shapes and neighbours, the first.
std::vector<int> different_blocks(const Partition& partition, const Network& network);

/// How a grid places a network's layers, as names.
struct GridLayers {
  std::vector<std::string> cut, exchanged, gathered, whole;  ///< exchanged: of the cut ones, those that need messages
};
GridLayers grid_layers(const Partition& partition, const Network& network);
/// Names of layers for a line of text: at most four, else the first two and the last one, and how many.
std::string names_text(const std::vector<std::string>& names);

}  // namespace mrmf
