// Statistics of batch norms taken anew, against means and variances worked out by hand.
#include <doctest/doctest.h>

#include "src/config/model_config.hpp"
#include "src/training/training_loop.hpp"
#include "tests/unit/support/backends.hpp"

using namespace mrmf;
using namespace mrmf::test;

TEST_CASE("precise batch norm: the mean over the batches, whatever the running averages were") {
  LayerSpec norm;
  norm.kind = LayerKind::batch_norm;
  norm.momentum = 0.05F;
  LayerSpec flatten;
  flatten.kind = LayerKind::flatten;
  std::vector<LayerSpec> layers{norm, flatten};
  name_layers(layers);
  for (const auto& backend : backends()) {
    INFO(backend->name());
    ModelSettings settings;
    settings.network.sample = {.n = 0, .spatial = {1, 1, 2}, .channels = 1, .axes = 1};
    settings.network.max_rows = 2;
    settings.network.layers = layers;
    Model model(*backend, settings);
    backend->fill(model.state(), 1000);
    PreciseBatchNorm precise(*backend, model, layers);
    REQUIRE(precise.any());
    const StepContext step{.training = true, .seed = 1, .updates_done = 0, .ids = {}, .team_sum = nullptr};
    // Means 2.5 and 12; unbiased variances 5/3 and 8/3.
    for (const std::vector<float>& x : {std::vector<float>{1, 2, 3, 4}, std::vector<float>{10, 12, 12, 14}}) {
      precise.before();
      model.forward(step, {model.network().input().with_rows(2), x});
      precise.after();
    }
    precise.finish();
    const Span state = model.state();
    CHECK(state[0] == doctest::Approx(7.25));
    CHECK(state[1] == doctest::Approx(0.5 * (5.0 / 3 + 8.0 / 3)));
  }
}
