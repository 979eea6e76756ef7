// A small network with every kind of layer that the Neuron Inverter has, for tests of models and fusions.
#pragma once

#include <numeric>
#include <vector>

#include "layers/model.hpp"
#include "src/config/model_config.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {

/// conv 2->6 k3, max pool 2, ReLU, conv 6->8 k3, batch norm, ReLU, flatten, batch norm, dense 10, tanh, dense 3.
inline std::vector<LayerSpec> small_layers() {
  std::vector<LayerSpec> layers;
  LayerSpec conv = layer(LayerKind::conv, 6);
  conv.window = {1, 1, 3};
  LayerSpec pool = layer(LayerKind::max_pool);
  pool.window = pool.stride = {1, 1, 2};
  layers = {conv, pool, layer(LayerKind::relu)};
  conv.units = 8;
  layers.insert(layers.end(), {conv, layer(LayerKind::batch_norm), layer(LayerKind::relu), layer(LayerKind::flatten),
                               layer(LayerKind::batch_norm), layer(LayerKind::dense, 10), layer(LayerKind::tanh),
                               layer(LayerKind::dense, 3)});
  name_layers(layers);
  return layers;
}

/// conv 2->6 k3, ReLU, flatten, dense 600, tanh, dense 3: the first dense layer is long enough to be summed in pieces
/// (mpi/reduce_scatter.hpp), also where a grid of two cuts it.
inline std::vector<LayerSpec> long_layers() {
  LayerSpec conv = layer(LayerKind::conv, 6);
  conv.window = {1, 1, 3};
  std::vector<LayerSpec> layers{conv,
                                layer(LayerKind::relu),
                                layer(LayerKind::flatten),
                                layer(LayerKind::dense, 600),
                                layer(LayerKind::tanh),
                                layer(LayerKind::dense, 3)};
  name_layers(layers);
  return layers;
}

inline ModelSettings small_model(Index length, std::uint64_t seed, Index rows = 8) {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {1, 1, length}, .channels = 2, .axes = 1};
  settings.network.max_rows = rows;
  settings.network.layers = small_layers();
  settings.seed = seed;
  return settings;
}

inline std::vector<float> random_values(Index count, std::uint64_t key) {
  Rng rng(key);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

/// Samples of the model's input shape with ids 0, 1, ...
struct Batch {
  Shape shape;
  std::vector<float> values;
  std::vector<std::int64_t> ids;

  Batch(const Model& model, Index rows, std::uint64_t key)
      : shape(model.network().input().with_rows(rows)),
        values(random_values(shape.count(), key)),
        ids(static_cast<std::size_t>(rows)) {
    std::iota(ids.begin(), ids.end(), 0);
  }
  ConstTensor x() const { return {shape, values}; }
  StepContext step(bool training, std::uint64_t number = 0) const {
    return {.training = training, .seed = 1, .updates_done = number, .ids = ids};
  }
};

/// A few steps of plain gradient descent towards random targets, so that parameters and running statistics move.
inline void train_a_little(Backend& backend, Model& model, std::uint64_t key, int steps = 3) {
  const Index rows = model.max_rows();
  const Shape labels = model.network().output().with_rows(rows);
  const std::vector<float> target = random_values(labels.count(), key + 1);
  Arena velocity = backend.allocate(model.network().params_size());
  for (int i = 0; i < steps; ++i) {
    const Batch batch(model, rows, key + 2 + static_cast<std::uint64_t>(i));
    StepContext step = batch.step(true);
    step.loss_weight = 1.0F / static_cast<float>(rows);
    step.sgd = {0.05F, 0.9F, 0.0F};
    backend.begin(step);
    const ConstTensor y = model.forward(step, batch.x());
    backend.loss({}, y.shape, y.shape.channels)
        ->run(step, y, {labels, target}, model.output_gradient(rows), model.loss());
    model.backward(step, batch.x());
    backend.sgd(step, model.params(), model.grads(), velocity.span());
  }
}

/// One update of all parameters outside of a training loop.
inline void update(Optimizer& optimizer, double learning_rate, Model& model) {
  StepContext step;
  optimizer.advance(learning_rate, step);
  optimizer.update(step, model.params(), model.grads());
}

/// Name of the first layer of the top; empty: there is none.
inline std::string first_top(const Network& network) {
  for (const LayerEntry& entry : network.entries())
    if (entry.top) return entry.name;
  return "";
}

inline std::vector<float> copy(ConstSpan span) { return {span.begin(), span.end()}; }

}  // namespace mrmf::test
