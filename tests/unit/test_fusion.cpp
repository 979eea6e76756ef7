// Model fusion: what moves, what stays, and what a fused model computes. Copies are exact, so most checks are too.
#include <doctest/doctest.h>

#include "src/fusion.hpp"
#include "src/interpolate.hpp"
#include "tests/unit/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct Pair {
  std::unique_ptr<Backend> backend = make_onednn_backend(1);
  Learner coarse{*backend, small_model(14, 1), OptimizerSettings{}, {1, 1, 2}};
  Learner dense{*backend, small_model(28, 2), OptimizerSettings{}, {1, 1, 1}};

  Pair() {
    train_a_little(*backend, coarse.model, 50);
    train_a_little(*backend, dense.model, 60);
    for (Learner* learner : {&coarse, &dense})
      for (int i = 0; i < (learner == &coarse ? 3 : 2); ++i) update(learner->optimizer, 1e-3, learner->model);
  }
};

FuseStep fuse_step(TopRule top, Moments moments = Moments::reset) {
  FuseStep step;
  step.top = top;
  step.moments = moments;
  return step;
}

}  // namespace

TEST_CASE("fusion: the dense model gets the coarse bottom, parameters and running statistics; its top stays") {
  Pair pair;
  const std::vector<float> coarse_params = copy(pair.coarse.model.bottom().params);
  const std::vector<float> coarse_state = copy(pair.coarse.model.bottom().state);
  const std::vector<float> top_params = copy(pair.dense.model.top().params);
  const std::vector<float> top_state = copy(pair.dense.model.top().state);
  REQUIRE(coarse_params != copy(pair.dense.model.bottom().params));
  REQUIRE(coarse_state != copy(pair.dense.model.bottom().state));
  const float* address = pair.dense.model.params().data();

  fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense));

  CHECK(copy(pair.dense.model.bottom().params) == coarse_params);
  CHECK(copy(pair.dense.model.bottom().state) == coarse_state);
  CHECK(copy(pair.dense.model.top().params) == top_params);
  CHECK(copy(pair.dense.model.top().state) == top_state);
  CHECK(pair.dense.model.params().data() == address);
}

TEST_CASE("fusion: the fused model's evaluation output is that of coarse bottom and dense top put together by hand") {
  Pair pair;
  Model by_hand(*pair.backend, small_model(28, 3));
  const auto put = [&](ConstSpan from, Span to) { std::ranges::copy(from, to.begin()); };
  put(pair.coarse.model.bottom().params, by_hand.bottom().params);
  put(pair.coarse.model.bottom().state, by_hand.bottom().state);
  put(pair.dense.model.top().params, by_hand.top().params);
  put(pair.dense.model.top().state, by_hand.top().state);
  const Batch batch(by_hand, 5, 70);
  const std::vector<float> expected = copy(by_hand.forward(batch.step(false), batch.x()).data);

  fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense));
  CHECK(copy(pair.dense.model.forward(batch.step(false), batch.x()).data) == expected);
}

TEST_CASE("fusion: moments are reset, or the bottom's go along with the larger step count") {
  Pair reset;
  fuse(*reset.backend, reset.coarse, reset.dense, fuse_step(TopRule::dense));
  CHECK(reset.dense.optimizer.steps() == 0);
  for (const Span moment : reset.dense.optimizer.moments())
    for (const float value : moment) REQUIRE(value == 0.0F);

  Pair carry;
  const std::size_t bottom = carry.coarse.model.bottom().params.size();
  const std::vector<float> coarse_m = copy(carry.coarse.optimizer.moments()[0].first(bottom));
  const std::vector<float> dense_m = copy(carry.dense.optimizer.moments()[0].subspan(bottom));
  fuse(*carry.backend, carry.coarse, carry.dense, fuse_step(TopRule::dense, Moments::carry));
  CHECK(carry.dense.optimizer.steps() == 3);
  CHECK(copy(carry.dense.optimizer.moments()[0].first(bottom)) == coarse_m);
  CHECK(copy(carry.dense.optimizer.moments()[0].subspan(bottom)) == dense_m);
}

TEST_CASE("fusion: bottoms that differ are refused by layer") {
  Pair pair;
  ModelSettings other = small_model(28, 4);
  other.network.layers[3].units = 9;  // conv2
  Learner dense(*pair.backend, other, OptimizerSettings{}, {1, 1, 1});
  CHECK_THROWS_WITH_AS(fuse(*pair.backend, pair.coarse, dense, fuse_step(TopRule::dense)), doctest::Contains("conv2"),
                       ConfigError);
}

TEST_CASE("fusion: a cut behind the resolution-sized layers is refused by layer") {
  Pair pair;
  ModelSettings coarse = small_model(14, 1), dense = small_model(28, 2);
  coarse.network.cut = dense.network.cut = "tanh1";
  Learner a(*pair.backend, coarse, OptimizerSettings{}, {1, 1, 2}),
      b(*pair.backend, dense, OptimizerSettings{}, {1, 1, 1});
  CHECK_THROWS_WITH_AS(fuse(*pair.backend, a, b, fuse_step(TopRule::dense)), doctest::Contains("batch_norm2"),
                       ConfigError);
}

TEST_CASE("interpolation: linear between centres, constant beyond the outermost, channels apart") {
  const std::vector<float> x{0, 100, 2, 102};  // two positions, two channels
  std::vector<float> y(8);
  resample({1, 2, {1, 1, 2}, {1, 1, 4}, 1.0F}, x, y);
  // Centres of four positions in units of the coarse ones: -0.25, 0.25, 0.75, 1.25.
  CHECK(y == std::vector<float>{0, 100, 0.5, 100.5, 1.5, 101.5, 2, 102});
  resample({1, 2, {1, 1, 2}, {1, 1, 4}, 0.5F}, x, y);
  CHECK(y[2] == 0.25F);
}

TEST_CASE("interpolation: rows apart, and axis by axis in 3-D") {
  const std::vector<float> x{1, 3, 10, 30};  // two rows of two positions
  std::vector<float> y(4);
  resample({2, 1, {1, 1, 2}, {1, 1, 2}, 1.0F}, x, y);
  CHECK(y == x);
  std::vector<float> cube(8);
  resample({1, 1, {1, 2, 2}, {2, 2, 2}, 1.0F}, std::vector<float>{1, 2, 3, 4}, cube);
  CHECK(cube == std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("fusion: an interpolated top keeps what a constant input gives") {
  // Where the flattened activations do not depend on the position, the interpolated dense layer must give the coarse
  // layer's output: its weights were scaled by coarse / dense length. Edge weights are shared out unevenly, so exactly
  // equal sums need an integer ratio of lengths; 6 -> 12 positions here. Float32 sums of 96 terms: 1e-5.
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> layers{layer(LayerKind::flatten), layer(LayerKind::batch_norm), layer(LayerKind::dense, 5)};
  name_layers(layers);
  ModelSettings settings;
  settings.network.layers = layers;
  settings.network.max_rows = 4;
  settings.network.cut = "flatten";
  settings.network.sample = {.n = 0, .spatial = {1, 1, 6}, .channels = 8, .axes = 1};
  Learner coarse(*backend, settings, OptimizerSettings{}, {1, 1, 2});
  train_a_little(*backend, coarse.model, 80);
  for (const Entry& entry : coarse.model.network().entries())  // statistics that do not depend on the position
    if (entry.kind == LayerKind::batch_norm) {
      for (Index i = 0; i < entry.params.count; ++i)
        coarse.model.params()[static_cast<std::size_t>(entry.params.first + i)] = static_cast<float>(1 + i % 8);
      for (Index i = 0; i < entry.state.count; ++i)
        coarse.model.state()[static_cast<std::size_t>(entry.state.first + i)] = static_cast<float>(1 + i % 8);
    }
  settings.network.sample.spatial = {1, 1, 12};
  Learner dense(*backend, settings, OptimizerSettings{}, {1, 1, 1});
  fuse(*backend, coarse, dense, fuse_step(TopRule::interpolated));

  const std::vector<float> channel = random_values(8, 90);
  const auto output = [&](Model& model) {
    Batch batch(model, 4, 0);
    for (std::size_t i = 0; i < batch.values.size(); ++i) batch.values[i] = channel[i % 8];
    return copy(model.forward(batch.step(false), batch.x()).data);
  };
  const std::vector<float> expected = output(coarse.model), got = output(dense.model);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("fusion: an interpolated dense layer with as many units as the coarse vector is long keeps its bias apart") {
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> layers{layer(LayerKind::flatten), layer(LayerKind::dense, 12), layer(LayerKind::dense, 2)};
  name_layers(layers);
  ModelSettings settings;
  settings.network = {{.n = 0, .spatial = {1, 1, 6}, .channels = 2, .axes = 1}, 4, layers, "flatten"};
  Learner coarse(*backend, settings, OptimizerSettings{}, {1, 1, 2});
  settings.network.sample.spatial = {1, 1, 12};
  Learner dense(*backend, settings, OptimizerSettings{}, {1, 1, 1});
  const auto bias = [](Model& model) {
    const Place place = model.network().entry(1).params;
    return copy(model.params().subspan(static_cast<std::size_t>(place.end() - 12), 12));
  };
  const Place last = coarse.model.network().entry(2).params;
  const std::vector<float> expected = bias(coarse.model);
  const std::vector<float> next =
      copy(coarse.model.params().subspan(static_cast<std::size_t>(last.first), static_cast<std::size_t>(last.count)));
  fuse(*backend, coarse, dense, fuse_step(TopRule::interpolated));
  CHECK(bias(dense.model) == expected);
  const Place there = dense.model.network().entry(2).params;
  CHECK(copy(dense.model.params().subspan(static_cast<std::size_t>(there.first),
                                          static_cast<std::size_t>(there.count))) == next);
}

TEST_CASE("fusion: what cannot be handed over is known from the networks alone") {
  const auto backend = make_reference_backend();
  ModelSettings coarse = small_model(14, 1), dense = small_model(28, 2);
  coarse.network.cut = dense.network.cut = "conv2";
  const Network a(*backend, coarse.network), b(*backend, dense.network);
  CHECK_NOTHROW(require_fusible(a, b, fuse_step(TopRule::interpolated)));
  coarse.network.layers[8].units = 7;  // dense1, over the flattened vector: not only its length differs
  const Network c(*backend, coarse.network);
  CHECK_NOTHROW(require_fusible(c, b, fuse_step(TopRule::dense)));
  CHECK_THROWS_WITH_AS(require_fusible(c, b, fuse_step(TopRule::interpolated)), doctest::Contains("dense1"),
                       ConfigError);
}

TEST_CASE("fusion: progressive copies the top layers that fit and leaves the others") {
  Pair pair;
  const auto part = [](Model& model, const std::string& name) {
    for (const Entry& entry : model.network().entries())
      if (entry.name == name)
        return copy(model.params().subspan(static_cast<std::size_t>(entry.params.first),
                                           static_cast<std::size_t>(entry.params.count)));
    return std::vector<float>{};
  };
  const std::vector<float> sized = part(pair.dense.model, "dense1");
  FuseStep step = fuse_step(TopRule::dense);
  step.matching = true;
  const std::vector<float> last = part(pair.coarse.model, "dense2");
  fuse(*pair.backend, pair.coarse, pair.dense, step);
  CHECK(part(pair.dense.model, "dense2") == last);
  CHECK(part(pair.dense.model, "dense1") == sized);
}
