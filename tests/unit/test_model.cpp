// The model over its arenas: layout, in-place rules, the gradient of the whole network, fused against unfused.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

double model_loss(Backend& backend, Model& model, const Batch& batch, ConstSpan target, bool training) {
  const ConstTensor y = model.forward(batch.step(training), batch.x());
  return mrmf::test::loss_of(backend, LossKind::mse, y, {y.shape, target}, 1.0F, {});
}

}  // namespace

TEST_CASE("model: layers start on 64-byte boundaries, in order, and do not overlap") {
  const auto backend = make_reference_backend();
  Model model(*backend, small_model(20, 1));
  Index end = 0;
  for (const LayerEntry& entry : model.network().entries()) {
    CHECK(entry.params.first % 16 == 0);
    CHECK(entry.params.first >= end);
    end = entry.params.end();
  }
  CHECK(model.params().size() >= static_cast<std::size_t>(end));
  CHECK(reinterpret_cast<std::uintptr_t>(model.params().data()) % 64 == 0);
  CHECK(model.reduce_buffer().data() == model.grads().data());
  CHECK(model.reduce_buffer().size() == model.grads().size() + 16);
}

TEST_CASE("model: the cut is the flatten, and the groups tile the arenas") {
  const auto backend = make_reference_backend();
  Model model(*backend, small_model(20, 1));
  CHECK(first_top(model.network()) == "flatten");
  CHECK(model.bottom().front().params.size() + model.top().front().params.size() == model.params().size());
  CHECK(model.bottom().front().params.data() == model.params().data());
  CHECK(model.top().front().params.data() == model.params().data() + model.bottom().front().params.size());
  CHECK(model.bottom().front().state.size() + model.top().front().state.size() == model.state().size());
  CHECK(model.bottom().front().state.size() >= 16);  // the channel batch norm's running statistics
}

TEST_CASE("model: a cut by name") {
  const auto backend = make_reference_backend();
  ModelSettings settings = small_model(20, 1);
  settings.network.bottom.cut = "conv2";
  Model model(*backend, settings);
  CHECK(first_top(model.network()) == "conv2");
  settings.network.bottom.cut = "conv9";
  CHECK_THROWS_WITH_AS(Model(*backend, settings), doctest::Contains("model.cut = \"conv9\" names no layer"),
                       ConfigError);
}

TEST_CASE("model: the same seed gives the same parameters, another seed others") {
  const auto backend = make_reference_backend();
  Model a(*backend, small_model(20, 7)), b(*backend, small_model(20, 7)), c(*backend, small_model(20, 8));
  CHECK(copy(a.params()) == copy(b.params()));
  CHECK(copy(a.params()) != copy(c.params()));
}

// Directional derivative of the loss over all parameters against central differences. Two errors: float32 rounding of a
// loss of size 10 (1e-6, so 2e-3 of the difference a step of 3e-4 makes) and the kinks of ReLU and pooling that the
// step crosses (they shrink with the step; 4e-3 seen). 1e-2 holds both; a wrong layer is off by tens of per cent.
TEST_CASE("model: backward is the gradient of the whole network") {
  const auto backend = make_reference_backend();
  Model model(*backend, small_model(20, 3));
  const Batch batch(model, 8, 11);
  const std::vector<float> target = random_values(8 * 3, 12);
  const ConstTensor y = model.forward(batch.step(true), batch.x());
  loss_of(*backend, LossKind::mse, y, {y.shape, target}, 1.0F, model.output_gradient(8));
  model.backward(batch.step(true), batch.x());
  const std::vector<float> w = copy(model.params()), dw = copy(model.grads());
  for (std::uint64_t trial = 0; trial < 4; ++trial) {
    std::vector<float> direction = random_values(static_cast<Index>(w.size()), 100 + trial);
    double norm = 0, expected = 0;
    for (const float d : direction) norm += static_cast<double>(d) * d;
    for (std::size_t i = 0; i < w.size(); ++i) expected += dw[i] * direction[i] / std::sqrt(norm);
    const auto moved = [&](double h) {
      for (std::size_t i = 0; i < w.size(); ++i)
        model.params()[i] = static_cast<float>(w[i] + h * direction[i] / std::sqrt(norm));
      return model_loss(*backend, model, batch, target, true);
    };
    const double h = 3e-4;
    const double measured = (moved(h) - moved(-h)) / (2 * h);
    CHECK(measured == doctest::Approx(expected).epsilon(1e-2));
  }
}

namespace {

// conv 2->6, ReLU, max pool 2x2, the same with padding to 8 channels, dense 3: the usual order of networks for images.
ModelSettings small_image_model() {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {1, 14, 13}, .channels = 2, .axes = 2};
  settings.network.max_rows = 8;
  LayerSpec conv = layer(LayerKind::conv, 6), pool = layer(LayerKind::max_pool);
  conv.window = {1, 3, 3};
  pool.window = pool.stride = {1, 2, 2};
  std::vector<LayerSpec>& layers = settings.network.layers;
  layers = {conv, layer(LayerKind::relu), pool};
  conv.units = 8, conv.same_padding = true;
  layers.insert(layers.end(),
                {conv, layer(LayerKind::relu), pool, layer(LayerKind::flatten), layer(LayerKind::dense, 3)});
  name_layers(layers);
  return settings;
}

void check_fused(Backend& backend, ModelSettings settings) {
  Model fused(backend, settings);
  settings.fuse = false;
  Model plain(backend, settings);
  const Batch batch(fused, 6, 21);
  const std::vector<float> target = random_values(6 * 3, 22);
  std::vector<std::vector<float>> outputs, gradients;
  for (Model* model : {&fused, &plain}) {
    const ConstTensor y = model->forward(batch.step(true), batch.x());
    outputs.push_back(copy(y.data));
    loss_of(backend, LossKind::mse, y, {y.shape, target}, 1.0F, model->output_gradient(6));
    model->backward(batch.step(true), batch.x());
    gradients.push_back(copy(model->grads()));
  }
  // Summation orders differ: float32 rounding of sums of tens of terms of size one.
  for (std::size_t i = 0; i < outputs[0].size(); ++i)
    CHECK(outputs[0][i] == doctest::Approx(outputs[1][i]).epsilon(1e-4));
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    difference += std::pow(gradients[0][i] - gradients[1][i], 2);
    size += std::pow(gradients[1][i], 2);
  }
  CHECK(std::sqrt(difference / size) < 1e-4);
}

}  // namespace

TEST_CASE("model: fused and unfused execution agree on both backends") {
  for (const auto& backend : {make_reference_backend(), make_cpu_backend(2)}) {
    CAPTURE(backend->name());
    check_fused(*backend, small_model(23, 5));
    check_fused(*backend, small_image_model());
  }
  const auto reference = make_reference_backend(), cpu = make_cpu_backend(2);
  const auto units = [](Backend& backend, ModelSettings settings, bool fuse) {
    settings.fuse = fuse;
    return Model(backend, settings).units().size();
  };
  CHECK(units(*reference, small_model(23, 5), true) < units(*reference, small_model(23, 5), false));
  CHECK(units(*cpu, small_model(23, 5), true) < units(*cpu, small_model(23, 5), false));
  CHECK(units(*cpu, small_image_model(), true) + 4 == units(*cpu, small_image_model(), false));
}

TEST_CASE("model: padding between layers stays zero through training") {
  const auto backend = make_cpu_backend(1);
  Model model(*backend, small_model(20, 9));
  train_a_little(*backend, model, 30);
  std::set<Index> used;
  for (const LayerEntry& entry : model.network().entries())
    for (Index i = entry.params.first; i < entry.params.end(); ++i) used.insert(i);
  for (Index i = 0; i < static_cast<Index>(model.params().size()); ++i)
    if (!used.contains(i)) CHECK(model.params()[static_cast<std::size_t>(i)] == 0.0F);
}

TEST_CASE("model: training lowers the loss") {
  const auto backend = make_cpu_backend(2);
  Model model(*backend, small_model(20, 9));
  const Batch batch(model, 8, 40);
  const std::vector<float> target = random_values(8 * 3, 41);
  const double before = model_loss(*backend, model, batch, target, true);
  Arena velocity = backend->allocate(model.network().params_size());
  for (int i = 0; i < 40; ++i) {
    const ConstTensor y = model.forward(batch.step(true), batch.x());
    loss_of(*backend, LossKind::mse, y, {y.shape, target}, 1.0F / 8, model.output_gradient(8));
    model.backward(batch.step(true), batch.x());
    StepContext update_step;
    update_step.sgd = {0.05F, 0.9F, 0.0F};
    backend->sgd(update_step, model.params(), model.grads(), velocity.span());
  }
  CHECK(model_loss(*backend, model, batch, target, true) < 0.2 * before);
}

TEST_CASE("model: a window larger than its input is an error that names the layer") {
  const auto backend = make_reference_backend();
  CHECK_THROWS_WITH_AS(Model(*backend, small_model(4, 1)), doctest::Contains("conv2"), ConfigError);
}
