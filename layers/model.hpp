// A network with its memory: the arenas, and forward and backward over the list.
//
// Arenas: parameters, gradients, state (batch-norm statistics), activations; each one allocation, layer-major. So an
// all-reduce, an optimizer step, a checkpoint, a rank-consistency hash and a fusion each act on a span. Contents move
// at fusion, addresses never do.
#pragma once

#include <vector>

#include "layers/network.hpp"

namespace mrmf {

struct ModelSettings {
  NetworkSettings network;
  std::uint64_t seed = 1;  ///< of the initial parameters
  bool fuse = true;        ///< run the backend's fused operations where it offers them
};

/// The bottom or the top layers of a model: what a fusion moves.
struct Group {
  Span params, state;
  std::vector<std::string> signatures;  ///< "conv1: conv 3->30 k4", one per layer
};

class Model {
 public:
  Model(Backend& backend, const ModelSettings& settings);
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;

  const Network& network() const { return network_; }
  Index max_rows() const { return network_.input().n; }

  Span params() { return params_.span(); }
  ConstSpan params() const { return params_.span(); }
  Span state() { return state_.span(); }
  ConstSpan state() const { return state_.span(); }
  /// Gradients, laid out as params(). reduced() is the same memory and 16 floats more for scalars that travel with it.
  Span grads() { return grads_.span().first(params_.size()); }
  Span reduced() { return grads_.span(); }

  Group bottom() { return group(0, network_.cut()); }
  Group top() { return group(network_.cut(), network_.size()); }

  /// Makes the plans for this number of rows, so that no step has to.
  void prepare(Index rows);

  /// The network's output for x (at most max_rows rows); valid until the next forward.
  ConstTensor forward(const Step& step, ConstTensor x);
  /// Memory for the gradient of the loss with respect to the output; backward() reads it and uses it up.
  Span output_gradient(Index rows);
  /// After forward with the same step and x. Overwrites grads().
  void backward(const Step& step, ConstTensor x);

  /// One entry of the executed list: a layer, or a fused run of layers. For the benchmark and the tests.
  struct Unit {
    std::size_t first = 0, last = 0;  ///< layers [first, last)
    Layer* run = nullptr;             ///< the layer itself, or the fused one
    bool in_place = false;            ///< its output lies where its input does
    Place cache;                      ///< in the cache arena
    Place output;                     ///< in the activation arena, for max_rows
    Shape out;                        ///< n = max_rows
  };
  const std::vector<Unit>& units() const { return units_; }
  Lent lend(const Unit& unit, const Step& step);
  Index activation_floats() const { return static_cast<Index>(activations_.size()); }

 private:
  void plan_units(Backend& backend, const NetworkSettings& settings, bool fuse);
  Group group(std::size_t first, std::size_t last);
  Tensor output_of(const Unit& unit, Index rows);

  Network network_;
  std::vector<std::unique_ptr<Layer>> fused_;
  std::vector<Unit> units_;
  Arena params_, grads_, state_, cache_, activations_;
  Arena gradient_[2];  // of activations: backward goes back and forth between the two
};

}  // namespace mrmf
