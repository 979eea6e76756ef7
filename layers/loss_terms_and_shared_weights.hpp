// What a model of several parts (layers/parts.hpp) trains for: its loss terms, as the network's last unit, and which
// units a step has to compute for the terms of its turn. And layers that have the weights of another.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "layers/execution.hpp"
#include "layers/layer.hpp"
#include "layers/network.hpp"

namespace mrmf {

// The terms of a loss as the last unit of a network of several parts (layers/parts.hpp). Forward passes the network's
// output on. Backward begins there: it computes the terms, and their gradients for what they read.

class LossTerms final : public Layer {
 public:
  /// The terms of the network's parts. ConfigError where the backend has no host memory.
  LossTerms(Backend& backend, const Network& network);

  /// What it reads, as Wiring counts: the network's output, then each term's output and target, if that is a layer's.
  const std::vector<std::size_t>& reads() const { return reads_; }

  std::string signature() const override { return "loss terms"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = 0}; }
  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.reshape(x, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor) override;

  /// The terms of the step's turn, for what reads() names; the gradients of the others are zero. `sums` has the sum of
  /// the losses over the rows, with its weight, of all terms and behind it of each; 0 of those that are not computed.
  /// dx with empty data is not wanted.
  void run(const StepContext& step, std::span<const ConstTensor> x, std::span<const Tensor> dx, Span sums);

 private:
  struct Term {
    std::unique_ptr<LossOp> loss;
    Shape output;
    bool numbers = false;   ///< the gradient of the target is that of the output, with the other sign
    std::size_t first = 0;  ///< in reads_: its output, and behind it its target, if it has one
    bool reads_target = false;
    Arena value;  ///< else the target, for as many rows as there may be
  };
  void run(const StepContext& step, Term& term, std::span<const ConstTensor> x, std::span<const Tensor> dx, Span sum);

  Backend& backend_;
  const PartSettings settings_;
  Shape output_;
  std::vector<std::size_t> reads_;
  std::vector<Term> terms_;
  Arena scratch_;  // the gradient of a term's output that nobody wants
};

// Which units of a network of several parts a step has to compute, in whose turn it is (layers/parts.hpp).

/// Which units take part, one flag for each. A turn's forward computes what its terms need, and its backward what lies
/// between them and the parameters that it updates. Elsewhere gradients are zero.
struct LiveUnits {
  std::vector<bool> forward, backward;
};

/// One entry for each turn, then one for evaluation, which needs the network's output alone.
std::vector<LiveUnits> live_units(const Execution& execution, const Network& network);

// Layers that have the weights of another (LayerSpec::weights_of): the same decoder behind two encoders, a
// discriminator that sees what is real and what is not, and frozen copies of it.
//
// Each has a span of its own among the parameters, where a copy lies. So every layer computes as if it were alone.
// What a backward leaves there of shared weights is added to the gradients of the layer that has them; of frozen ones
// it is dropped. After an update the copies are taken anew: shared weights always, frozen ones every so many updates.
// Running statistics (of batch norms) are each layer's own.

struct WeightCopy {
  ArenaSpan from, to;  ///< in the arenas of parameters and of gradients
  int every = 0;       ///< 0: shared
};

/// ConfigError, naming the layer, where weights_of names no layer, a later one, one that has another's weights itself,
/// or one of other parameters.
void require_copies(const Network& network);

/// In the order of the list.
std::vector<WeightCopy> weight_copies(const Network& network);

/// Adds gradients of shared weights where the weights are, and clears those of all copies.
void fold_gradients(Backend& backend, const std::vector<WeightCopy>& copies, Span grads);

/// Which copies are taken anew.
enum class Copied { shared, all };
void copy_weights(Backend& backend, const std::vector<WeightCopy>& copies, Span params, Copied which);
/// After the update with this number, counted from 1.
void copy_weights_after(Backend& backend, const std::vector<WeightCopy>& copies, Span params, std::uint64_t updates);

}  // namespace mrmf
