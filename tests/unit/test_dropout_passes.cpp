// Evaluation with dropout: the masks of training, and everything else as in evaluation.
#include <doctest/doctest.h>

#include "kernels/formulas.hpp"
#include "layers/model.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

/// conv 2->6 k3, batch norm, ReLU, flatten, batch norm, dropout: the output is what dropout made of it.
ModelSettings dropping_model(float rate) {
  LayerSpec conv = layer(LayerKind::conv, 6), dropout = layer(LayerKind::dropout);
  conv.window = {1, 1, 3};
  dropout.rate = rate;
  ModelSettings settings = small_model(20, 5);
  settings.network.layers = {conv,
                             layer(LayerKind::batch_norm),
                             layer(LayerKind::relu),
                             layer(LayerKind::flatten),
                             layer(LayerKind::batch_norm),
                             dropout};
  name_layers(settings.network.layers);
  return settings;
}

std::vector<float> output(Backend& backend, ConstTensor y) {
  std::vector<float> values(static_cast<std::size_t>(y.shape.count()));
  backend.read_activation(y, values);
  return values;
}

}  // namespace

TEST_CASE("dropout: a pass is an evaluation times the documented mask, and moves no statistics") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Model model(*backend, dropping_model(0.25F));
    const Batch moved(model, 8, 3), batch(model, 5, 4);
    backend->begin(moved.step(true));
    model.forward(moved.step(true), moved.x());  // so that running statistics are not those of a fresh model
    const std::vector<float> state = copy(model.state());
    const StepContext step = batch.step(false, 6);
    backend->begin(step);
    const std::vector<float> plain = output(*backend, model.forward(step, batch.x()));
    const std::vector<float> dropped = output(*backend, forward_with_dropout(model, step, batch.x()));
    CHECK(copy(model.state()) == state);
    const std::size_t number = model.network().size() - 1;
    const DropoutMask mask(step, number, 0.25F);
    const Index features = model.network().output().per_sample();
    Index kept = 0;
    for (Index row = 0; row < 5; ++row)
      for (Index feature = 0; feature < features; ++feature) {
        const auto i = static_cast<std::size_t>(row * features + feature);
        const bool keeps = mask.keeps(mask.block(batch.ids[static_cast<std::size_t>(row)], feature), feature);
        CHECK(dropped[i] == doctest::Approx(keeps ? plain[i] * mask.scale : 0.0F).epsilon(1e-6));
        kept += keeps ? 1 : 0;
      }
    CHECK(kept < 5 * features);
    CHECK(output(*backend, forward_with_dropout(model, batch.step(true, 6), batch.x())) == dropped);
    CHECK(copy(model.state()) == state);
    const StepContext later = batch.step(false, 7);
    backend->begin(later);
    CHECK(output(*backend, forward_with_dropout(model, later, batch.x())) != dropped);
  }
}

TEST_CASE("dropout: which networks drop anything") {
  const auto backend = make_reference_backend();
  CHECK(drops(Model(*backend, dropping_model(0.25F)).network()));
  CHECK_FALSE(drops(Model(*backend, dropping_model(0.0F)).network()));
  CHECK_FALSE(drops(Model(*backend, small_model(20, 1)).network()));
}

}  // namespace mrmf::test
