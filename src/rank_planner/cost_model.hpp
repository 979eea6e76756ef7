// What the parts of a training step cost, by whatever means: measured tables (cost_tables.hpp) or a stated roofline of
// a GPU (roofline.hpp). Seconds on one rank. And the work of a step that costs them, as operations.
#pragma once

#include <string>
#include <vector>

#include "layers/execution.hpp"
#include "src/config/config.hpp"

namespace mrmf {

inline constexpr double kFloatBytes = sizeof(float);  ///< of a value

// What a rank computes in a training step, as cost models see it: the units of an execution on one block of a grid,
// each with its work, and what it exchanges with other ranks.

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

/// Seconds of an operation's three passes.
struct PassSeconds {
  double forward = 0, data = 0, weights = 0;
  double backward() const { return data + weights; }
};

/// Where a time comes from.
enum class CostSource { measured, between, fitted };

/// Ranks as they lie on the machine.
struct RankLayout {
  int ranks = 1;
  int per_node = 1;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  /// One line, for people.
  virtual std::string description() const = 0;
  /// What is taken for granted, one line each.
  virtual std::vector<std::string> assumptions() const = 0;

  /// `rows` need not be whole: steps of an epoch differ by one row.
  virtual PassSeconds operation(const Operation& operation, double rows) const = 0;
  /// Where the cost of the last pass of an operation like this comes from.
  virtual CostSource source(const Operation& operation, double rows) const = 0;
  /// The loss and its gradient, for so many numbers of output.
  virtual double loss(double outputs) const = 0;
  /// Messages of these lengths in bytes to as many other ranks, sent and received at once, between ranks of a group of
  /// so many neighbours.
  virtual double messages(const std::vector<double>& bytes, const RankLayout& group) const = 0;
  /// The sum of gradients over ranks, as far as it is waited for; backward takes so long.
  virtual double gradient_sum(double bytes, double backward, const RankLayout& ranks) const = 0;
  /// The wait for the sum where each rank updates the piece of the parameters that it adds
  /// (src/training/data_parallel.hpp); the update itself is not in it.
  virtual double update_sum(double bytes, double backward, const RankLayout& ranks) const {
    return gradient_sum(bytes, backward, ranks);
  }
  /// What a rank computes for a sum of so many values that travel as codes: it makes, adds and reads them.
  virtual double coding(Communication scheme, double values) const {
    (void)scheme, (void)values;
    return 0;
  }
  /// A sum of a few numbers over the ranks.
  virtual double small_sum(const RankLayout& ranks) const = 0;
  /// What ranks that compute at the same time wait for the slowest of them, as a part of what they compute.
  /// within_step: they also meet inside of a step, for messages or for statistics of batch norms. Then as if after
  /// every unit.
  virtual double waiting(bool within_step, const RankLayout& ranks) const {
    (void)within_step, (void)ranks;
    return 0;
  }
  virtual double update(OptimizerKind kind, Index parameters) const = 0;
  /// Bringing a batch of so many bytes to where the step finds it.
  virtual double load(double bytes) const = 0;
  /// Reading so many bytes from files, by all ranks of a node together; 0 where that is not known.
  virtual double read(double bytes) const = 0;
  /// Seconds in which so many bytes of a batch come from the host's memory, beside the step; 0: it computes there
  /// itself.
  virtual double feed(double bytes) const {
    (void)bytes;
    return 0;
  }
  /// Bytes of an activation's element, and of memory a rank may use (0: unknown).
  virtual double element_bytes() const { return 4; }
  virtual double memory() const { return 0; }
  /// How much longer computation takes because ranks share cores.
  virtual double crowding(const RankLayout& ranks) const {
    (void)ranks;
    return 1;
  }
};

}  // namespace mrmf
