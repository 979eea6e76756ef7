// What a call knows of the step that it is part of: every number that changes from step to step; and what goes to
// other ranks: all-reduce, also of values that travel as codes of fewer bits, and messages between ranks that share a
// sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

// How a backend's values reach other ranks: sums over the ranks that train one model together, and messages between
// ranks that share a sample.

/// Time taken by sums over the ranks, in seconds.
struct SumTime {
  double waited = 0;  ///< computation stood still for the sums
  double hidden = 0;  ///< the sums ran beside computation (0 where that is unknown)
};

/// Updates parameters by the complete sum of their gradients, so many from `first` on.
using UpdatePiece = std::function<void(Index first, Index count)>;

/// A rank's memory, and the open file that holds it from its beginning; -1: none does.
struct SharedBlock {
  Span values;
  int file = -1;
};

/// In-place sums, over the ranks that train one model together, of values in the backend's memory. Every rank gets the
/// same result: the sums, or what was updated by them.
class AllReduce {
 public:
  virtual ~AllReduce() = default;
  virtual void sum(std::span<double> values) = 0;
  /// Begins the sum of these gradients; it may run beside the calls that follow...
  virtual void start(Span part) = 0;
  /// ...until here: later calls see all sums that were started.
  virtual void finish() = 0;
  /// Whether start_update() may be called.
  virtual bool updates() const { return false; }
  /// As start(), but what every rank has in the end are the updated `values`, which lie as `part` does. `update` is
  /// called once before finish() returns, on all of the part or, of a long one, on the piece that this rank adds; the
  /// others get that piece from here. Gradients of other pieces are undefined then.
  virtual void start_update(Span part, Span values, const UpdatePiece& update);
  /// From now on the parts and values of start_update() lie in these blocks, and the ranks may read them in each
  /// other's memory. Before a rank writes to the values by other means than updates, it makes a call that ends only
  /// when all ranks have begun it, such as a sum: others may still be reading. Collective; false on every rank where
  /// they cannot.
  virtual bool share_memory(std::span<const SharedBlock> blocks) { return (void)blocks, false; }
  virtual void stop_sharing() {}  ///< not collective
  /// Time of the sums since the last call.
  virtual SumTime take_time() = 0;
  /// Bytes that this rank has sent for started sums since the last call; 0 where nobody counts them.
  virtual double take_sent() { return 0; }
};

/// The ranks that train one model together, or share a sample; a backend makes its own communicator from this.
struct Peers {
  int rank = 0, size = 1;
  std::vector<int> ranks{};                             ///< which of the world they are, in their order
  std::function<void(std::span<std::byte>)> broadcast;  ///< from rank 0, collective
};

/// Values for another rank, or from one, in the backend's memory.
struct Message {
  int rank = 0;
  Span values;
};

/// Messages between the ranks that hold a sample together, each some of its positions (layers/partition.hpp).
class Messages {
 public:
  virtual ~Messages() = default;
  virtual int rank() const = 0;
  /// Begins to send and to receive. Between two ranks there is at most one message either way, of the same length on
  /// both. What is sent must stay as it is...
  virtual void start(std::span<const Message> sent, std::span<const Message> received) = 0;
  /// ...until here: later calls see what was received.
  virtual void finish() = 0;
  /// Time of the messages since the last call.
  virtual SumTime take_time() = 0;
};

// Sums over ranks whose values travel as codes of fewer bits, where a backend makes the codes in its own memory. What
// the codes mean is in mpi/coded_and_fixed_point_sums.hpp, for the host: each rank adds one piece of all ranks' codes,
// decoded, and gives the result to the others as codes, so all ranks get the same bits.

/// bf16 and scaled: the sum of values; levels and votes: the sign of the sum, and NaN where a value is not finite.
enum class CodeFormat { bf16, scaled, levels8, levels4, votes };

/// Where a tensor lies in a part.
struct CodedTensor {
  std::size_t first = 0, count = 0;
  bool operator==(const CodedTensor&) const = default;
};

/// A part of the gradients, or of the directions, and how it travels.
struct CodedPart {
  Span values{};
  CodeFormat code = CodeFormat::bf16;
  float weight = 1;                        ///< bf16, scaled: values are multiplied by it
  int most_level = 127;                    ///< levels
  float mean_level = 0;                    ///< levels: what the mean size of a tensor's values becomes
  bool geometric = false;                  ///< levels: the mean is the geometric one, without zeros
  std::span<const CodedTensor> tensors{};  ///< levels: all of the part, in order
  std::uint32_t rows = 1;                  ///< votes: the weight of this rank's; none of weight 0 votes
  std::uint64_t offset = 0;         ///< votes: of the first value in its arena; ties are functions of it and the step
  Span residual{}, sum_residual{};  ///< bf16, scaled: what codes have left out, laid out as values; empty: not kept
};

class CodedAllReduce : public AllReduce {
 public:
  /// As start(). Parts share no value. In every step that is captured and replayed, the same come as in the one before
  /// it. Returns the bytes that this rank sends.
  virtual double start_coded(const CodedPart& part) = 0;
};

// What a call knows of the step that it is part of: every number that changes from step to step, and the sums and
// messages of the ranks.

/// One update of a span of parameters: the learning rate of the step, and the optimizer's other numbers as in PyTorch.
struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
};
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float weight_decay = 0;                  ///< Adam: added to the gradient
  float decoupled_decay = 0;               ///< AdamW: w -= learning_rate * decoupled_decay * w, before the step
  float correction1 = 1, correction2 = 1;  ///< 1 - beta^t, t: updates that these moments have seen
};
struct LionStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0;
  float decoupled_decay = 0;  ///< as AdamW's
  float gain = 1;             ///< gradients are multiplied by this: a rank's share of a sum becomes a mean of its own
};

/// Where a call stands in the run, and every number that changes from step to step. A device backend that replays a
/// captured step takes them from here (Backend::begin).
struct StepContext {
  bool training = true;
  std::uint64_t seed = 0;               ///< the phase's: the run's seed, mixed with the phase's key
  std::uint64_t updates_done = 0;       ///< by the optimizer on this model, so far
  std::span<const std::int64_t> ids{};  ///< global index of each row's sample in its data set
  AllReduce* team_sum = nullptr;        ///< over the ranks of the team; null: batch-norm statistics are this rank's own
  AllReduce* same_block_sum =
      nullptr;  ///< over one rank of each sample group, where every rank of a group has all of its samples
  Messages* halo_messages = nullptr;  ///< null: every rank has whole samples
  AllReduce* sample_sum = nullptr;    ///< sums over the ranks of a grid; null: this rank has all of each sample
  Index batch_index = 0;              ///< the batch's number in its epoch: where append_history() puts the loss
  float loss_weight = 1;              ///< weight of each row's loss in the gradient
  float share = 1;                    ///< share of each row's loss that this rank counts, with its gradient (grids)
  float dropout_factor = 1;           ///< multiplies every dropout layer's own rate (1 outside of tournaments)
  ConstTensor labels{};               ///< the batch's labels, for layers that read them (layers/parts.hpp); empty: none
  std::size_t turn = 0;               ///< whose turn it is to train (layers/parts.hpp)
  SgdStep sgd{};                      ///< the update that ends the step: one of this, lion and adam
  LionStep lion{};
  std::array<AdamStep, 2> adam{};  ///< for two groups of parameters, whose moments may differ in age
};

}  // namespace mrmf
