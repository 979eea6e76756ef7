// Small results worked out by hand: what ties the reference backend itself, and every other one, to the definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "layers/layer.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {
namespace {

/// One evaluation of a layer without state: y for x and parameters.
Values forward(Backend& backend, const Shape& in, const LayerSpec& spec, Values x, Values params) {
  const auto layer = make_layer(backend, in, spec, 0);
  Values y(static_cast<std::size_t>(layer->output().count()), NAN);
  Arena cache = backend.allocate(layer->footprint().cache);
  const StepContext step;
  layer->forward({step, params, {}, {}, cache.span()}, {in, x}, {layer->output(), y});
  return y;
}

}  // namespace

TEST_CASE("values: convolution slides without flipping, bias added") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto y = forward(*backend, line(1, 4, 1), conv(1, {1, 1, 3}, {1, 1, 1}), {1, 2, 3, 4}, {1, 10, 100, 0.5F});
    CHECK(y == Values{321.5F, 432.5F});
  }
}

TEST_CASE("values: same padding puts the odd one after, as TensorFlow does") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto strided =
        forward(*backend, line(1, 4, 1), conv(1, {1, 1, 3}, {1, 1, 2}, true), {1, 2, 3, 4}, {1, 10, 100, 0});
    CHECK(strided == Values{321, 43});
    const auto even =
        forward(*backend, line(1, 3, 1), conv(1, {1, 1, 4}, {1, 1, 1}, true), {1, 2, 3}, {1, 10, 100, 1000, 0});
    CHECK(even == Values{3210, 321, 32});
  }
}

TEST_CASE("values: filters are (out, position, in)") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto y = forward(*backend, line(1, 2, 2), conv(2, {1, 1, 2}, {1, 1, 1}), {1, 2, 3, 4},
                           {1, 10, 100, 1000, 1, 1, 1, 1, 0, 0.5F});
    CHECK(y == Values{4321, 10.5F});
  }
}

TEST_CASE("values: convolution in three dimensions keeps the axes apart") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    // 1*1 + 2*2 + 3*4 + ... + 8*128 = 7 * 2^8 + 1
    const auto y = forward(*backend, volume(1, {2, 2, 2}, 1), conv(1, {2, 2, 2}, {1, 1, 1}), {1, 2, 3, 4, 5, 6, 7, 8},
                           {1, 2, 4, 8, 16, 32, 64, 128, 0});
    CHECK(y == Values{1793});
    const auto rows =
        forward(*backend, volume(1, {2, 1, 3}, 1), conv(1, {2, 1, 1}, {1, 1, 2}), {1, 2, 3, 4, 5, 6}, {1, 10, 0});
    CHECK(rows == Values{41, 63});
  }
}

TEST_CASE("values: max pooling takes the first of equals, drops the rest, and routes the gradient back") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto op = backend->pool({PoolKind::max, 1, {1, 1, 9}, {1, 1, 4}, {1, 1, 4}}, 1);
    Values x{1, 3, 3, 2, 5, 0, -1, 9, 7}, y(2), dy{10, 20}, dx(9, NAN);
    std::vector<std::uint8_t> winner(2);
    op->forward({line(1, 9, 1), x}, {line(1, 2, 1), y}, winner);
    CHECK(y == Values{3, 9});
    CHECK(winner == std::vector<std::uint8_t>{1, 3});
    op->backward({line(1, 2, 1), dy}, winner, {line(1, 9, 1), dx});
    CHECK(dx == Values{0, 10, 0, 0, 0, 0, 0, 20, 0});
  }
}

TEST_CASE("values: a winner's position counts the last axis fastest") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto op = backend->pool({PoolKind::max, 1, {2, 2, 3}, {2, 2, 3}, {2, 2, 3}}, 1);
    for (std::size_t at = 0; at < 12; ++at) {
      Values x(12, -5), y(1);
      x[at] = -1;
      std::vector<std::uint8_t> winner(1);
      op->forward({volume(1, {2, 2, 3}, 1), x}, {volume(1, {1, 1, 1}, 1), y}, winner);
      CHECK(y[0] == -1);
      CHECK(winner[0] == at);
    }
  }
}

TEST_CASE("values: overlapping average pooling") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto op = backend->pool({PoolKind::average, 1, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}}, 1);
    Values x{1, 3, 5}, y(2), dy{1, 2}, dx(3, NAN);
    op->forward({line(1, 3, 1), x}, {line(1, 2, 1), y}, {});
    CHECK(y == Values{2, 4});
    op->backward({line(1, 2, 1), dy}, {}, {line(1, 3, 1), dx});
    CHECK(dx == Values{0.5F, 1.5F, 1.0F});
  }
}

TEST_CASE("values: dense weights are (out, in)") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::dense;
    spec.units = 3;
    const auto y = forward(*backend, flat(2, 2), spec, {1, 2, 3, 4}, {1, 10, 100, 1000, 0, 0, 0, 0, 7});
    CHECK(y == Values{21, 2100, 7, 43, 4300, 7});
  }
}

TEST_CASE("values: leaky ReLU and tanh") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::leaky_relu;
    spec.slope = 0.25F;
    CHECK(forward(*backend, flat(1, 4), spec, {-4, -0.0F, 0.5F, 8}, {}) == Values{-1, 0, 0.5F, 8});
    spec.kind = LayerKind::relu;
    CHECK(forward(*backend, flat(1, 4), spec, {-4, -0.0F, 0.5F, 8}, {}) == Values{0, 0, 0.5F, 8});
    spec.kind = LayerKind::tanh;
    CHECK(forward(*backend, flat(1, 2), spec, {0.5F, -30}, {})[0] == doctest::Approx(std::tanh(0.5)).epsilon(1e-6));
    CHECK(forward(*backend, flat(1, 2), spec, {0.5F, -30}, {})[1] == doctest::Approx(-1.0).epsilon(1e-6));
    spec.scale = 1.5F;
    CHECK(forward(*backend, flat(1, 2), spec, {0.5F, -30}, {})[0] ==
          doctest::Approx(1.5 * std::tanh(0.5)).epsilon(1e-6));
    CHECK(forward(*backend, flat(1, 2), spec, {0.5F, -30}, {})[1] == doctest::Approx(-1.5).epsilon(1e-6));
  }
}

TEST_CASE("values: dilation spreads the taps, and what counts is how far they reach") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec = conv(1, {1, 1, 3}, {1, 1, 1});
    spec.dilation = {1, 1, 2};
    CHECK(forward(*backend, line(1, 6, 1), spec, {1, 2, 3, 4, 5, 6}, {1, 10, 100, 0.5F}) == Values{531.5F, 642.5F});
    spec.same_padding = true;
    CHECK(forward(*backend, line(1, 3, 1), spec, {1, 2, 3}, {1, 10, 100, 0}) == Values{310, 20, 31});
  }
}

TEST_CASE("values: a transposed convolution adds filters up, as PyTorch's, and padding leaves positions out") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec = conv(1, {1, 1, 3}, {1, 1, 2});
    spec.kind = LayerKind::conv_transpose;
    const Values params{1, 10, 100, 0.5F};
    CHECK(forward(*backend, line(1, 2, 1), spec, {1, 2}, params) == Values{1.5F, 10.5F, 102.5F, 20.5F, 200.5F});
    spec.pad_before = {0, 0, 1};
    CHECK(forward(*backend, line(1, 2, 1), spec, {1, 2}, params) == Values{10.5F, 102.5F, 20.5F, 200.5F});
    spec.pad_after = {0, 0, 1};
    CHECK(forward(*backend, line(1, 2, 1), spec, {1, 2}, params) == Values{10.5F, 102.5F, 20.5F});
    spec = conv(2, {1, 1, 1}, {1, 1, 1});
    spec.kind = LayerKind::conv_transpose;  // weights (in, position, out)
    CHECK(forward(*backend, line(1, 1, 2), spec, {1, 2}, {1, 10, 100, 1000, 0, 7}) == Values{201, 2017});
  }
}

TEST_CASE("values: every position of a locally connected layer has its own weights and bias") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec = conv(1, {1, 1, 2}, {1, 1, 1});
    spec.kind = LayerKind::locally_connected;
    // weights (position, out, tap), biases (position, out)
    CHECK(forward(*backend, line(1, 3, 1), spec, {1, 2, 3}, {1, 10, 100, 1000, 0.5F, 0.25F}) ==
          Values{21.5F, 3200.25F});
    spec.units = 2;
    spec.window = {1, 1, 1};
    CHECK(forward(*backend, line(1, 2, 2), spec, {1, 2, 3, 4}, {1, 10, 2, 20, 3, 30, 4, 40, 0, 0, 0, 7}) ==
          Values{21, 42, 129, 179});
  }
}

TEST_CASE("values: L2 pooling is the root of squares of a window, of a group of channels, or of both") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::l2_pool;
    spec.root_epsilon = 1;
    spec.window = spec.stride = {1, 1, 2};
    CHECK(forward(*backend, line(1, 2, 2), spec, {2, 0, 2, 0}, {}) == Values{3, 1});
    spec.groups = 1;
    CHECK(forward(*backend, line(1, 2, 2), spec, {2, 1, -1, 3}, {}) == Values{4});
    spec.window = spec.stride = {1, 1, 1};
    CHECK(forward(*backend, line(1, 2, 4), spec, {1, 1, 1, 0, 2, 2, 0, 0}, {}) == Values{2, 3});
  }
}

TEST_CASE("values: local contrast normalisation subtracts a weighted mean, and divides by a deviation or the floor") {
  // By a matrix of weights exp(-(distance / (window / 4))^2 / 2) whose rows have the sum 1, in double.
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::local_contrast_norm;
    spec.window = {1, 1, 3};
    const auto check = [&](const Shape& in, const Values& x, const std::vector<double>& expected) {
      const Values y = forward(*backend, in, spec, x, {});
      REQUIRE(y.size() == expected.size());
      for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(y[i] - expected[i]) <= 2e-6);
    };
    check(line(1, 4, 1), {1, 2, 4, 4}, {-1.06396766, -0.73973929, 1.28545503, 0});
    spec.floor = 1.15F;  // above the first deviation, below the second
    check(line(1, 4, 2), {1, 3, 2, 0, 4, 4, 4, 4},
          {-0.61622680, 1.12290363, 0.08415885, -1.64112268, 0.58854812, 0.58854812, 0.00000000, 0.00000000});
  }
}

TEST_CASE("values: upsampling repeats values, or goes linearly between the centres") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::upsample;
    spec.window = {1, 1, 2};
    CHECK(forward(*backend, line(1, 2, 1), spec, {1, 3}, {}) == Values{1, 1, 3, 3});
    spec.mode = UpsampleKind::linear;
    CHECK(forward(*backend, line(1, 2, 1), spec, {1, 3}, {}) == Values{1, 1.5F, 2.5F, 3});
    CHECK(forward(*backend, line(1, 1, 2), spec, {1, 3}, {}) == Values{1, 3, 1, 3});
    spec.window = {1, 1, 4};
    CHECK(forward(*backend, line(1, 2, 1), spec, {0, 8}, {}) == Values{0, 0, 1, 3, 5, 7, 8, 8});
    const auto op = backend->upsample({UpsampleKind::linear, 1, {1, 1, 2}, {1, 1, 2}}, 1);
    const Values dy{1, 2, 3, 4};
    Values dx(2, NAN);
    op->backward({line(1, 4, 1), dy}, {}, {line(1, 2, 1), dx});
    CHECK(dx == Values{3.25F, 6.75F});
  }
}

TEST_CASE("values: global average pooling") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::global_average_pool;
    CHECK(forward(*backend, line(2, 2, 2), spec, {1, 10, 3, 20, 5, 0, 7, 1}, {}) == Values{2, 15, 6, 0.5F});
    Values ramp(2000);
    for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
    CHECK(forward(*backend, line(1, 1000, 2), spec, ramp, {}) == Values{999, 1000});
  }
}

TEST_CASE("values: gelu, silu, softplus and sigmoid, near zero and far from it") {
  struct Expected {
    LayerKind kind;
    std::vector<double> at;  // -30, -2, 0, 1, 30
  };
  // From PyTorch in float64.
  const Expected all[] = {
      {LayerKind::gelu, {0, -0.04550026389635842, 0, 0.8413447460685429, 30}},
      {LayerKind::silu, {-2.8072868906520526e-12, -0.2384058440442351, 0, 0.7310585786300049, 30}},
      {LayerKind::softplus, {9.357622968840171e-14, 0.1269280110429725, 0.6931471805599453, 1.3132616875182228, 30}},
      {LayerKind::sigmoid, {9.357622968839299e-14, 0.11920292202211755, 0.5, 0.7310585786300049, 1}}};
  for (const auto& backend : backends())
    for (const Expected& expected : all) {
      LayerSpec spec;
      spec.kind = expected.kind;
      INFO(backend->name(), " ", to_string(expected.kind));
      const Values y = forward(*backend, flat(1, 5), spec, {-30, -2, 0, 1, 30}, {});
      for (std::size_t i = 0; i < y.size(); ++i)
        CHECK(std::abs(y[i] - expected.at[i]) <= 3e-7 * std::max(1.0, y[i] + 0.0));
    }
}

TEST_CASE("values: group norm takes each sample's groups of channels, layer norm each sample") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::group_norm;
    spec.groups = 2;
    spec.epsilon = 1e-12F;
    const auto near = [](const Values& y, const Values& expected) {
      for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    };
    near(forward(*backend, flat(2, 4), spec, {1, 3, 10, 14, 5, 4, 0, 1}, {1, 2, 1, 1, 0, 0, 0, 7}),
         {-1, 2, -1, 8, 1, -2, -1, 8});
    const float far = 3.0F / std::sqrt(5.0F), near_mean = 1.0F / std::sqrt(5.0F);
    spec.kind = LayerKind::layer_norm;
    near(forward(*backend, line(1, 2, 2), spec, {1, 2, 3, 4}, {1, 1, 0, 0}), {-far, -near_mean, near_mean, far});
  }
}

TEST_CASE("values: batch norm keeps gamma, beta and mean, variance in the order its parts say") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    LayerSpec spec;
    spec.kind = LayerKind::batch_norm;
    spec.epsilon = 1e-12F;
    const auto layer = make_layer(*backend, flat(1, 1), spec, 0);
    const Values x{5}, params{2, 1};
    Values y{NAN}, state{3, 4}, cache(2);
    StepContext step;
    step.training = false;
    layer->forward({step, params, {}, state, cache}, {flat(1, 1), x}, {flat(1, 1), y});
    CHECK(y[0] == doctest::Approx(2.0 * (5 - 3) / std::sqrt(4.0) + 1.0));
  }
}

// oneDNN 2.6.3's weight gradient of such a convolution writes behind its memory: glibc ends the program at a free().
TEST_CASE("values: a convolution of one tap with a long stride leaves other memory alone") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    constexpr Index positions = 65536, stride = 64;
    const LayerSpec spec = conv(1, {1, 1, 1}, {1, 1, stride});
    for (int again = 0; again < 4; ++again) {
      const auto layer = make_layer(*backend, line(2, positions, 2), spec, 0);
      const Shape in = line(2, positions, 2), out = layer->output();
      const Values x(static_cast<std::size_t>(in.count()), 0.5F), dy(static_cast<std::size_t>(out.count()), 1);
      const Values params{1, 2, 3};
      Values y(dy.size()), dx(x.size()), grads(3);
      const StepContext step;
      layer->forward({step, params, grads, {}, {}}, {in, x}, {out, y});
      layer->backward({step, params, grads, {}, {}}, {in, x}, {out, y}, {out, dy}, {in, dx});
      CHECK(y.back() == 4.5F);
      CHECK(grads == Values{1024, 1024, 2048});
    }
  }
}

}  // namespace mrmf::test
