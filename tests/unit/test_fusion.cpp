// Model fusion: what moves, what stays, and what a fused model computes. Copies are exact, so most checks are too.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "src/method/pipeline.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct TwoModels {
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ModelState coarse{*backend, small_model(14, 1), OptimizerSettings{}, {1, 1, 2}};
  ModelState dense{*backend, small_model(28, 2), OptimizerSettings{}, {1, 1, 1}};

  TwoModels() {
    train_a_little(*backend, coarse.model, 50);
    train_a_little(*backend, dense.model, 60);
    for (ModelState* model_state : {&coarse, &dense})
      for (int i = 0; i < (model_state == &coarse ? 3 : 2); ++i)
        update(model_state->optimizer, 1e-3, model_state->model);
  }
};

Fusion fuse_step(TopRule top, MomentTransfer moments = MomentTransfer::reset) {
  Fusion step;
  step.top = top;
  step.moments = moments;
  return step;
}

}  // namespace

TEST_CASE("fusion: the dense model gets the coarse bottom, parameters and running statistics; its top stays") {
  TwoModels pair;
  const std::vector<float> coarse_params = copy(pair.coarse.model.bottom().front().params);
  const std::vector<float> coarse_state = copy(pair.coarse.model.bottom().front().state);
  const std::vector<float> top_params = copy(pair.dense.model.top().front().params);
  const std::vector<float> top_state = copy(pair.dense.model.top().front().state);
  REQUIRE(coarse_params != copy(pair.dense.model.bottom().front().params));
  REQUIRE(coarse_state != copy(pair.dense.model.bottom().front().state));
  const float* address = pair.dense.model.params().data();

  fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense));

  CHECK(copy(pair.dense.model.bottom().front().params) == coarse_params);
  CHECK(copy(pair.dense.model.bottom().front().state) == coarse_state);
  CHECK(copy(pair.dense.model.top().front().params) == top_params);
  CHECK(copy(pair.dense.model.top().front().state) == top_state);
  CHECK(pair.dense.model.params().data() == address);
}

TEST_CASE("fusion: the fused model's evaluation output is that of coarse bottom and dense top put together by hand") {
  TwoModels pair;
  Model by_hand(*pair.backend, small_model(28, 3));
  const auto put = [&](ConstSpan from, Span to) { std::ranges::copy(from, to.begin()); };
  put(pair.coarse.model.bottom().front().params, by_hand.bottom().front().params);
  put(pair.coarse.model.bottom().front().state, by_hand.bottom().front().state);
  put(pair.dense.model.top().front().params, by_hand.top().front().params);
  put(pair.dense.model.top().front().state, by_hand.top().front().state);
  const Batch batch(by_hand, 5, 70);
  const std::vector<float> expected = copy(by_hand.forward(batch.step(false), batch.x()).data);

  fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense));
  CHECK(copy(pair.dense.model.forward(batch.step(false), batch.x()).data) == expected);
}

TEST_CASE("fusion: moments are reset, or the bottom's go along, and each group keeps its age") {
  TwoModels reset;
  fuse(*reset.backend, reset.coarse, reset.dense, fuse_step(TopRule::dense));
  CHECK(reset.dense.optimizer.steps() == 0);
  for (const Span moment : reset.dense.optimizer.moments())
    for (const float value : moment) REQUIRE(value == 0.0F);

  TwoModels carry;
  const std::size_t bottom = carry.coarse.model.bottom().front().params.size();
  const std::vector<float> coarse_m = copy(carry.coarse.optimizer.moments()[0].first(bottom));
  const std::vector<float> dense_m = copy(carry.dense.optimizer.moments()[0].subspan(bottom));
  fuse(*carry.backend, carry.coarse, carry.dense, fuse_step(TopRule::dense, MomentTransfer::carry));
  CHECK(carry.dense.optimizer.ages() == MomentAges{3, 2});
  CHECK(copy(carry.dense.optimizer.moments()[0].first(bottom)) == coarse_m);
  CHECK(copy(carry.dense.optimizer.moments()[0].subspan(bottom)) == dense_m);

  TwoModels interpolated;
  fuse(*interpolated.backend, interpolated.coarse, interpolated.dense,
       fuse_step(TopRule::interpolated, MomentTransfer::carry));
  CHECK(interpolated.dense.optimizer.ages() == MomentAges{3, 3});  // the dense model's own moments are gone
}

TEST_CASE(
    "fusion: with carried moments the first steps are as long as the learning rate, in old parts and young ones") {
  // A gradient that stays the same makes Adam's every step as long as the rate: the coarse model's after 1600 steps,
  // the dense one's after 8, and the fused one's, if each part's bias correction fits its age.
  for (const OptimizerKind name : {OptimizerKind::adam, OptimizerKind::adamw}) {
    CAPTURE(to_string(name));
    TwoModels pair;
    OptimizerSettings settings;
    settings.name = name;
    const auto train = [&](ModelState& model_state, int steps) {
      model_state.optimizer.reset();
      model_state.optimizer.configure(settings);
      std::ranges::copy(random_values(std::ssize(model_state.model.grads()), 7), model_state.model.grads().begin());
      for (int i = 0; i < steps; ++i) update(model_state.optimizer, 1e-3, model_state.model);
    };
    train(pair.coarse, 1600);
    train(pair.dense, 8);
    fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense, MomentTransfer::carry));
    // The bottom's spans are the same in both models, and so are its gradients here.
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> before = copy(pair.dense.model.params());
      update(pair.dense.optimizer, 1e-3, pair.dense.model);
      for (const LayerEntry& entry : pair.dense.model.network().entries()) {
        if (entry.params.count == 0) continue;
        CAPTURE(entry.name);
        std::vector<double> moved;
        for (Index i = entry.params.first; i < entry.params.end(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          moved.push_back(std::abs(pair.dense.model.params()[at] - before[at]) / 1e-3);
        }
        std::ranges::nth_element(moved, moved.begin() + std::ssize(moved) / 2);
        CHECK(moved[moved.size() / 2] == doctest::Approx(1).epsilon(0.01));
      }
    }
  }
}

TEST_CASE("fusion: with carried moments every weight continues as under an optimizer of its own") {
  // Adam in double, a step count for every weight (as PyTorch keeps it), through coarse, dense and fused training.
  TwoModels pair;
  for (ModelState* model_state : {&pair.coarse, &pair.dense}) model_state->optimizer.reset();
  struct Own {
    double w = 0, m = 0, v = 0;
    int steps = 0;
    void update(double g) {
      const double b1 = 0.9F, b2 = 0.999F;
      ++steps;
      m = b1 * m + (1 - b1) * g;
      v = b2 * v + (1 - b2) * g * g;
      w -= 1e-3 * (m / (1 - std::pow(b1, steps))) / (std::sqrt(v / (1 - std::pow(b2, steps))) + 1e-8);
    }
  };
  const auto own = [](ModelState& model_state) {
    std::vector<Own> all;
    for (const float w : model_state.model.params()) all.push_back({w});
    return all;
  };
  std::uint64_t key = 1000;
  const auto train = [&](ModelState& model_state, std::vector<Own>& by_hand, int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::vector<float> g = random_values(std::ssize(model_state.model.grads()), ++key);
      std::ranges::copy(g, model_state.model.grads().begin());
      update(model_state.optimizer, 1e-3, model_state.model);
      for (std::size_t k = 0; k < by_hand.size(); ++k) by_hand[k].update(g[k]);
    }
  };
  std::vector<Own> coarse = own(pair.coarse), dense = own(pair.dense);
  train(pair.coarse, coarse, 60);
  train(pair.dense, dense, 5);
  fuse(*pair.backend, pair.coarse, pair.dense, fuse_step(TopRule::dense, MomentTransfer::carry));
  std::copy_n(coarse.begin(), pair.dense.model.bottom().front().params.size(), dense.begin());
  train(pair.dense, dense, 30);
  double worst = 0;
  for (std::size_t k = 0; k < dense.size(); ++k)
    worst = std::max(worst, std::abs(dense[k].w - pair.dense.model.params()[k]));
  CHECK(worst < 1e-5);  // roundings of weights of size one; a step is 1e-3
}

TEST_CASE("fusion: carried velocities of SGD need no correction") {
  TwoModels pair;
  OptimizerSettings sgd;
  sgd.name = OptimizerKind::sgd;
  ModelState coarse(*pair.backend, small_model(14, 1), sgd, {1, 1, 2}),
      dense(*pair.backend, small_model(28, 2), sgd, {1, 1, 1});
  for (ModelState* model_state : {&coarse, &dense}) {
    std::ranges::fill(model_state->model.grads(), 1.0F);
    for (int i = 0; i < (model_state == &coarse ? 3 : 1); ++i) update(model_state->optimizer, 1e-3, model_state->model);
  }
  fuse(*pair.backend, coarse, dense, fuse_step(TopRule::dense, MomentTransfer::carry));
  update(dense.optimizer, 1e-3, dense.model);
  const Span velocity = dense.optimizer.moments()[0];
  CHECK(velocity.front() == doctest::Approx(1 + 0.9 + 0.81 + 0.729));
  CHECK(velocity.back() == doctest::Approx(1 + 0.9));
}

TEST_CASE("fusion: bottoms that differ are refused by layer") {
  TwoModels pair;
  ModelSettings other = small_model(28, 4);
  other.network.layers[3].units = 9;  // conv2
  ModelState dense(*pair.backend, other, OptimizerSettings{}, {1, 1, 1});
  CHECK_THROWS_WITH_AS(fuse(*pair.backend, pair.coarse, dense, fuse_step(TopRule::dense)), doctest::Contains("conv2"),
                       ConfigError);
}

TEST_CASE("fusion: a cut behind the resolution-sized layers is refused by layer") {
  TwoModels pair;
  ModelSettings coarse = small_model(14, 1), dense = small_model(28, 2);
  coarse.network.bottom.cut = dense.network.bottom.cut = "tanh1";
  ModelState a(*pair.backend, coarse, OptimizerSettings{}, {1, 1, 2}),
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
  settings.network.bottom.cut = "flatten";
  settings.network.sample = {.n = 0, .spatial = {1, 1, 6}, .channels = 8, .axes = 1};
  ModelState coarse(*backend, settings, OptimizerSettings{}, {1, 1, 2});
  train_a_little(*backend, coarse.model, 80);
  for (const LayerEntry& entry : coarse.model.network().entries())  // statistics that do not depend on the position
    if (entry.kind == LayerKind::batch_norm) {
      for (Index i = 0; i < entry.params.count; ++i)
        coarse.model.params()[static_cast<std::size_t>(entry.params.first + i)] = static_cast<float>(1 + i % 8);
      for (Index i = 0; i < entry.state.count; ++i)
        coarse.model.state()[static_cast<std::size_t>(entry.state.first + i)] = static_cast<float>(1 + i % 8);
    }
  settings.network.sample.spatial = {1, 1, 12};
  ModelState dense(*backend, settings, OptimizerSettings{}, {1, 1, 1});
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

TEST_CASE("fusion: what depends on the position is interpolated position by position, each part with its own values") {
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> layers{layer(LayerKind::flatten), layer(LayerKind::batch_norm), layer(LayerKind::dense, 3)};
  name_layers(layers);
  ModelSettings settings;
  settings.network = {{.n = 0, .spatial = {1, 1, 6}, .channels = 2, .axes = 1}, 4, layers, "flatten"};
  ModelState coarse(*backend, settings, OptimizerSettings{}, {1, 1, 2});
  settings.network.sample.spatial = {1, 1, 12};
  ModelState dense(*backend, settings, OptimizerSettings{}, {1, 1, 1});

  // A value of every part, row, position and channel: linear in the position, so that interpolation is exact.
  const auto value = [](int part, Index row, double position, Index channel) {
    return 100.0 * part + 30.0 * static_cast<double>(row) + 2 * position + 0.25 * static_cast<double>(channel);
  };
  constexpr int kWeights = 3;
  // Calls at(number, part, row, position, channel) for every float of both layers' parameters, moments and state, but
  // for the dense layer's bias. A batch norm's rows are gamma and beta, or mean and variance.
  const auto each = [](ModelState& model_state, Index length, const auto& at) {
    const auto rows = [&](Span arena, const ArenaSpan& span, int part, Index count) {
      for (Index row = 0; row < count; ++row)
        for (Index i = 0; i < 2 * length; ++i)
          at(arena[static_cast<std::size_t>(span.first + row * 2 * length + i)], part, row, i / 2, i % 2);
    };
    const LayerEntry &norm = model_state.model.network().entry(1), &dense_layer = model_state.model.network().entry(2);
    rows(model_state.model.params(), norm.params, 1, 2);
    rows(model_state.model.state(), norm.state, 2, 2);
    rows(model_state.model.params(), dense_layer.params, kWeights, 3);
    for (int k = 0; k < 2; ++k) {
      const Span moments = model_state.optimizer.moments()[static_cast<std::size_t>(k)];
      rows(moments, norm.params, 4 + k, 2);
      rows(moments, dense_layer.params, 6 + k, 3);
    }
  };
  each(coarse, 6, [&](float& number, int part, Index row, Index position, Index channel) {
    number = static_cast<float>(value(part, row, static_cast<double>(position), channel));
  });
  fuse(*backend, coarse, dense, fuse_step(TopRule::interpolated, MomentTransfer::carry));

  // Dense position i lies at i / 2 - 1/4 in units of coarse ones, and no further out than the outermost.
  each(dense, 12, [&](float& number, int part, Index row, Index position, Index channel) {
    const double there = std::clamp(static_cast<double>(position) / 2 - 0.25, 0.0, 5.0);
    CHECK(number == doctest::Approx((part == kWeights ? 0.5 : 1.0) * value(part, row, there, channel)));
  });
}

TEST_CASE("fusion: an interpolated dense layer with as many units as the coarse vector is long keeps its bias apart") {
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> layers{layer(LayerKind::flatten), layer(LayerKind::dense, 12), layer(LayerKind::dense, 2)};
  name_layers(layers);
  ModelSettings settings;
  settings.network = {{.n = 0, .spatial = {1, 1, 6}, .channels = 2, .axes = 1}, 4, layers, "flatten"};
  ModelState coarse(*backend, settings, OptimizerSettings{}, {1, 1, 2});
  settings.network.sample.spatial = {1, 1, 12};
  ModelState dense(*backend, settings, OptimizerSettings{}, {1, 1, 1});
  const auto bias = [](Model& model) {
    const ArenaSpan span = model.network().entry(1).params;
    return copy(model.params().subspan(static_cast<std::size_t>(span.end() - 12), 12));
  };
  const ArenaSpan last = coarse.model.network().entry(2).params;
  const std::vector<float> expected = bias(coarse.model);
  const std::vector<float> next =
      copy(coarse.model.params().subspan(static_cast<std::size_t>(last.first), static_cast<std::size_t>(last.count)));
  fuse(*backend, coarse, dense, fuse_step(TopRule::interpolated));
  CHECK(bias(dense.model) == expected);
  const ArenaSpan there = dense.model.network().entry(2).params;
  CHECK(copy(dense.model.params().subspan(static_cast<std::size_t>(there.first),
                                          static_cast<std::size_t>(there.count))) == next);
}

TEST_CASE("fusion: what cannot be transferred is known from the networks alone") {
  const auto backend = make_reference_backend();
  ModelSettings coarse = small_model(14, 1), dense = small_model(28, 2);
  coarse.network.bottom.cut = dense.network.bottom.cut = "conv2";
  const Network a(*backend, coarse.network), b(*backend, dense.network);
  CHECK_NOTHROW(require_fusible(a, b, fuse_step(TopRule::interpolated)));
  coarse.network.layers[8].units = 7;  // dense1, over the flattened vector: not only its length differs
  const Network c(*backend, coarse.network);
  CHECK_NOTHROW(require_fusible(c, b, fuse_step(TopRule::dense)));
  CHECK_THROWS_WITH_AS(require_fusible(c, b, fuse_step(TopRule::interpolated)), doctest::Contains("dense1"),
                       ConfigError);
}

TEST_CASE("fusion: progressive copies the top layers that fit and leaves the others") {
  TwoModels pair;
  const auto part = [](Model& model, const std::string& name) {
    for (const LayerEntry& entry : model.network().entries())
      if (entry.name == name)
        return copy(model.params().subspan(static_cast<std::size_t>(entry.params.first),
                                           static_cast<std::size_t>(entry.params.count)));
    return std::vector<float>{};
  };
  const std::vector<float> sized = part(pair.dense.model, "dense1");
  Fusion step = fuse_step(TopRule::dense);
  step.matching = true;
  const std::vector<float> last = part(pair.coarse.model, "dense2");
  fuse(*pair.backend, pair.coarse, pair.dense, step);
  CHECK(part(pair.dense.model, "dense2") == last);
  CHECK(part(pair.dense.model, "dense1") == sized);
}
