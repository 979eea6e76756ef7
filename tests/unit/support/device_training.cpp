#include "tests/unit/support/device_training.hpp"

#include <algorithm>

namespace mrmf::test {
namespace {

constexpr Index kOutputs = 3, kMostRows = 8, kLosses = 64;

}  // namespace

ModelSettings fusable_model(Index length, std::uint64_t seed) {
  LayerSpec conv = layer(LayerKind::conv, 6), pool = layer(LayerKind::max_pool);
  conv.window = {1, 1, 3};
  pool.window = {1, 1, 2};
  std::vector<LayerSpec> layers{conv, pool, layer(LayerKind::relu)};
  conv.units = 5;
  pool.kind = LayerKind::average_pool;
  layers.insert(layers.end(), {conv, layer(LayerKind::batch_norm), layer(LayerKind::leaky_relu), pool});
  conv.units = 8;
  conv.window = {1, 1, 2};
  LayerSpec dropout = layer(LayerKind::dropout);
  dropout.rate = 0.25F;
  layers.insert(layers.end(), {conv, layer(LayerKind::batch_norm), layer(LayerKind::relu), layer(LayerKind::flatten),
                               layer(LayerKind::batch_norm), layer(LayerKind::dense, 10), layer(LayerKind::tanh),
                               dropout, layer(LayerKind::dense, kOutputs)});
  name_layers(layers);
  ModelSettings settings = small_model(length, seed, kMostRows);
  settings.network.layers = layers;
  return settings;
}

DeviceTraining::DeviceTraining(Backend& backend, const ModelSettings& settings, std::uint64_t key)
    : model_state(backend, settings, OptimizerSettings{}, {1, 1, 1}),
      backend_(backend),
      key_(key),
      feed_(backend.feed(model_state.model.network().input(), kOutputs)),
      loss_(backend.loss({}, model_state.model.network().output(), kOutputs)),
      losses_(backend.allocate(kLosses)) {}

Feed::Batch DeviceTraining::load(const Batch& batch, std::uint64_t number) {
  const Index rows = batch.shape.n;
  const Feed::HostBatch host = feed_->host(rows);
  std::ranges::copy(batch.values, host.x.begin());
  std::ranges::copy(random_values(rows * kOutputs, number + 1000), host.targets.begin());
  return feed_->submit(rows);
}

void DeviceTraining::train(Index rows, std::uint64_t number, Index index) {
  Model& model = model_state.model;
  Batch batch(model, rows, number);
  for (std::int64_t& id : batch.ids) id += static_cast<std::int64_t>(number) * 100;
  const Feed::Batch loaded = load(batch, number);
  StepContext now = batch.step(true, model_state.optimizer.steps());
  now.batch_index = index;
  now.loss_weight = 1.0F / static_cast<float>(rows + static_cast<Index>(number % 3));
  model_state.optimizer.advance(1e-2 / static_cast<double>(1 + number % 4), now);
  backend_.begin(now);
  backend_.run_captured((key_ << 32) + static_cast<std::uint64_t>(rows) * 2 + 1, [&] {
    ++calls_;
    const ConstTensor y = model.forward(now, loaded.x);
    loss_->run(now, y, loaded.targets, model.output_gradient(rows), model.loss());
    model.backward(now, loaded.x);
    model_state.optimizer.update(now, model.params(), model.grads());
    backend_.append_history(now, model.loss(), losses_.span());
  });
}

void DeviceTraining::evaluate(Index rows, std::uint64_t number, Index index) {
  Model& model = model_state.model;
  const Feed::Batch loaded = load(Batch(model, rows, number), number);
  const StepContext now{.training = false, .batch_index = index};
  backend_.begin(now);
  backend_.run_captured((key_ << 32) + static_cast<std::uint64_t>(rows) * 2, [&] {
    ++calls_;
    const ConstTensor y = model.forward(now, loaded.x);
    loss_->run(now, y, loaded.targets, {}, model.loss());
    backend_.append_history(now, model.loss(), losses_.span());
  });
}

std::vector<float> DeviceTraining::everything() {
  std::vector<float> values = read(model_state.model.params());
  const auto add = [&](ConstSpan span) {
    const std::vector<float> more = read(span);
    values.insert(values.end(), more.begin(), more.end());
  };
  add(model_state.model.state());
  for (const Span moment : model_state.optimizer.moments()) add(moment);
  return values;
}

std::vector<float> DeviceTraining::read(ConstSpan span) {
  std::vector<float> values(span.size());
  backend_.read(span, values);
  return values;
}

}  // namespace mrmf::test
