// A network with its memory: the arenas, forward and backward over the list of layers, and evaluation with dropout.
//
// Arenas hold parameters, gradients, state (batch-norm statistics), what layers keep for backward, and activations with
// their gradients (memory_layout.hpp). The first three are in the order of layers, so an all-reduce, an optimizer step,
// a checkpoint, a rank-consistency hash and a fusion each act on a span. A fusion moves contents, never addresses.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "layers/execution.hpp"
#include "layers/loss_terms_and_shared_weights.hpp"

namespace mrmf {

/// Neighbouring layers of a model that are all bottom or all top, as a fusion moves them.
struct LayerGroup {
  Span params, state;
};

/// Floats behind the gradients that are summed along with them.
inline constexpr Index kReducedScalars = 16;

/// Updates `part` of the parameters, whose gradients are summed over the ranks that take part. `summed` is what was
/// summed at once: where `part` is but a piece of it, other ranks update the rest.
using UpdateAt = std::function<void(const ArenaSpan& summed, const ArenaSpan& part)>;

/// Sums of gradients over ranks during backward: one starts whenever this many floats or more are ready.
struct GradientSums {
  AllReduce* all_reduce = nullptr;
  /// Sums the gradients of row-parallel weights (layers/memory_layout.hpp); null: no other rank has these.
  AllReduce* same_block = nullptr;
  Index bucket = std::numeric_limits<Index>::max();
  const UpdateAt* update = nullptr;  ///< with each sum, if all of them can (AllReduce::updates); null: none
};

class Model {
 public:
  /// Computes with `params`, those of a model of the same network; if empty, with its own, which it initialises.
  Model(Backend& backend, const ModelSettings& settings, Span params = {});
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;

  const Network& network() const { return network_; }
  Index max_rows() const { return network_.input().n; }

  Span params() { return params_at_; }
  ConstSpan params() const { return params_at_; }
  Span state() { return state_.span(); }
  ConstSpan state() const { return state_.span(); }
  /// Gradients, laid out as ParameterLayout says: as params(), but for layers that are updated in place.
  /// reduce_buffer() is the same memory plus some floats for scalars that are summed along.
  Span grads() { return grads_.span().first(static_cast<std::size_t>(layout().gradients())); }
  Span reduce_buffer() { return grads_.span(); }

  /// Parameters and gradients as other ranks can map them, if ModelSettings::shared.
  std::array<SharedBlock, 2> shared() { return {{{params_.span(), params_.file()}, {grads_.span(), grads_.file()}}}; }

  std::vector<LayerGroup> bottom() { return groups(false); }
  std::vector<LayerGroup> top() { return groups(true); }

  /// Makes the plans for this number of rows, so that no step has to.
  void prepare(Index rows);
  /// After an update (Layer::constrain), the one with this number, counted from 1: copies of weights are taken anew.
  bool constrains() const;
  void constrain(std::uint64_t updates = 0);
  /// Takes copies of weights anew after parameters were written from outside.
  void copy_weights(Copied which) { mrmf::copy_weights(*backend_, weights_of_others_, params_at_, which); }
  /// Whether backward computes the loss itself, from terms: then it needs no output_gradient(), and leaves their sums
  /// over the rows in loss() and term_losses().
  bool has_terms() const { return network_.parts().any(); }

  /// What forward takes and gives: of a grid, this rank's positions.
  const Shape& input() const { return execution_.input; }
  const Shape& output() const { return execution_.units.back().out; }
  const Execution& execution() const { return execution_; }
  const ParameterLayout& layout() const { return execution_.params; }

  /// The network's output for x (at most max_rows rows); valid until the next forward.
  ConstTensor forward(const StepContext& step, ConstTensor x);
  /// The output of the last forward of so many rows.
  ConstTensor output(Index rows) { return output_of(execution_.units.back(), rows); }
  /// Memory for the gradient of the loss with respect to the output, after forward. backward() reads and overwrites it.
  Span output_gradient(Index rows);
  /// Call once after forward with the same step and x. Overwrites grads() and activations but the output. With `sums`,
  /// reduce_buffer() is summed over the ranks, part by part during backward; later calls see the complete sums. With
  /// `sums.update` they see updated parameters instead, and sums of the scalars alone.
  void backward(const StepContext& step, ConstTensor x, const GradientSums& sums = {});
  /// Sums all gradients over the ranks at once, after backward.
  void all_reduce_gradients(const GradientSums& sums);

  /// The float of reduce_buffer() for the loss, which is summed along with the gradients.
  Span loss() { return grads_.span().subspan(static_cast<std::size_t>(layout().gradients()), 1); }

  /// Behind it, those of each term, which are summed along, too.
  Span term_losses() {
    return grads_.span().subspan(static_cast<std::size_t>(layout().gradients()) + 1, network_.parts().terms.size());
  }

  /// Velocities, laid out as params(), that backward moves with the parameters of layers that are updated in place; if
  /// empty, as before the first call, these have no momentum.
  void use_velocity(Span velocity) { velocity_ = velocity; }

  const std::vector<Unit>& units() const { return execution_.units; }
  /// Whether a step has to compute the unit in forward or backward: of several parts, its turn may need some alone.
  bool computes(std::size_t unit, const StepContext& step, std::vector<bool> LiveUnits::*pass) const;
  /// One unit of forward and backward, which call this for all in their order. forward returns the unit's output.
  ConstTensor forward(const Unit& unit, const StepContext& step, ConstTensor x);
  void backward(const Unit& unit, const StepContext& step, ConstTensor x);
  /// A unit's slices of the arenas, for running one alone. x: the network's input.
  LayerBuffers buffers_of(const Unit& unit, const StepContext& step, ConstTensor x);

 private:
  using Forward = void (Layer::*)(const LayerBuffers&, ConstTensor, Tensor);
  using Backward = void (Layer::*)(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor);
  LayerBuffers buffers_of(const Unit& unit, const StepContext& step);
  void call(Forward half, const Unit& unit, const StepContext& step, ConstTensor x);
  void call(Backward half, const Unit& unit, const StepContext& step, ConstTensor x);
  void backward_overlapped(const Unit& exchange, const Unit& reader, const StepContext& step, ConstTensor x);
  Tensor gradient_of(const Unit& unit, std::size_t i, ConstTensor x);
  void add_up(const Unit& unit, ConstTensor x);
  void backward_from_terms(const StepContext& step, ConstTensor x, const GradientSums& sums);
  void run_terms(const Unit& unit, const StepContext& step, ConstTensor x);
  void clear_gradients(const Unit& unit, const StepContext& step, ConstTensor x);
  void initialise(std::uint64_t seed);
  void start_sums(const GradientSums& sums, Index first, Index end);
  void start_update(const GradientSums& sums, AllReduce* all_reduce, const ArenaSpan& span);
  std::vector<LayerGroup> groups(bool top);
  LayerGroup group(std::size_t first, std::size_t last);
  Tensor output_of(const Unit& unit, Index rows);
  ConstTensor input_of(const Unit& unit, std::size_t i, ConstTensor x);
  Tensor activation(const ArenaSpan& span, const Shape& shape);

  Backend* backend_;
  std::unique_ptr<Backend> reference_backend_;  // on a grid: makes the network of whole samples, which nobody computes
  Network network_;
  Execution execution_;
  std::vector<WeightCopy> weights_of_others_;
  std::vector<LiveUnits> live_;  // for every turn, and for evaluation; empty: a network of one part, all of it always
  Span params_at_;               // in params_, or another model's
  Span velocity_;                // the optimizer's; empty: none
  Arena params_, grads_, state_, cache_, activations_;
  StepContext copies_;          // the step as units see it whose input every rank of a grid has
  std::vector<ConstTensor> x_;  // the inputs of the unit that runs, and below their gradients
  std::vector<Tensor> dx_;
};

// Evaluation with dropout: the outputs of several such passes are spread as far as dropout makes the network unsure.

/// Whether some layer drops anything while it trains.
bool drops(const Network& network);

/// The network's output for x as in evaluation, but with the dropout masks of the step's seed, number and ids. Batch
/// norms use their running statistics and leave them as they are. Valid until the model's next forward.
ConstTensor forward_with_dropout(Model& model, const StepContext& step, ConstTensor x);

// What of a network of several parts a trained model needs: the layers that lead to its output.

/// The settings of a network of one part: `whole` without the layers that serve training alone. Layers that have
/// another's weights have them as their own.
NetworkSettings serving_network(const Network& whole, NetworkSettings settings);

/// Parameters and statistics of the layers of `to` become those of the layers of the same names.
void copy_layers(Backend& backend, const Model& from, Model& to);

}  // namespace mrmf
