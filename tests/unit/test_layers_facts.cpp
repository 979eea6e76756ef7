// What layers say of themselves: shapes, parameters, FLOP, signatures, initial values, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "layers/layer.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {
namespace {

LayerSpec conv_spec(Index units, const Extent& window, const Extent& stride, bool same) {
  LayerSpec spec = conv(units, window, stride, same);
  spec.name = "conv1";
  return spec;
}

struct Fixture {
  std::unique_ptr<Backend> backend = make_reference_backend();
  std::unique_ptr<Layer> make(const Shape& in, const LayerSpec& spec) { return make_layer(*backend, in, spec, 0); }
};

/// Bounds and mean square of what `initialiser` makes of a 600 -> 400 dense layer or a k3 convolution.
struct Drawn {
  double largest_weight = 0, mean_square = 0, largest_bias = 0;
};
Drawn draw(const Layer& layer, std::size_t weights) {
  Index count = 0;
  for (const NamedTensor& part : layer.footprint().params) count += part.count();
  std::vector<float> params(static_cast<std::size_t>(count));
  Rng rng(3);
  layer.initialise(rng, params, {});
  Drawn drawn;
  for (std::size_t i = 0; i < params.size(); ++i) {
    double& largest = i < weights ? drawn.largest_weight : drawn.largest_bias;
    largest = std::max(largest, std::abs(double{params[i]}));
    if (i < weights) drawn.mean_square += double{params[i]} * params[i] / static_cast<double>(weights);
  }
  return drawn;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "layer facts: convolution") {
  const auto valid = make(line(7, 1600, 3), conv_spec(30, {1, 1, 4}, {0, 0, 0}, false));
  CHECK(valid->output() == line(7, 1597, 30));
  CHECK(valid->signature() == "conv 3->30 k4 s1");
  CHECK(valid->flop() == 2.0 * 1597 * 30 * 4 * 3);
  CHECK(valid->footprint().params[0].shape == std::vector<Index>{30, 4, 3});
  CHECK(valid->footprint().params[1].shape == std::vector<Index>{30});
  CHECK(valid->footprint().params[0].name == "weight");
  CHECK(valid->footprint().params[1].name == "bias");

  const auto same = make(volume(2, {5, 4, 7}, 4), conv_spec(8, {3, 2, 3}, {2, 2, 2}, true));
  CHECK(same->output() == volume(2, {3, 2, 4}, 8));
  CHECK(same->signature() == "conv 4->8 k3x2x3 s2x2x2 same");
  CHECK(same->footprint().params[0].shape == std::vector<Index>{8, 3, 2, 3, 4});
}

TEST_CASE_FIXTURE(Fixture, "layer facts: explicit padding") {
  LayerSpec conv = conv_spec(8, {1, 4, 3}, {1, 2, 1}, false);
  conv.pad_before = {0, 1, 0};
  conv.pad_after = {0, 3, 2};
  const auto padded = make(image(2, 9, 7, 4), conv);
  CHECK(padded->output() == image(2, 5, 7, 8));
  CHECK(padded->signature() == "conv 4->8 k4x3 s2x1 p1x0+3x2");
  conv.same_padding = true;
  const auto same = make(image(2, 9, 7, 4), conv);
  CHECK(same->output() == image(2, 5, 7, 8));
  CHECK(same->signature() == "conv 4->8 k4x3 s2x1 same");

  const auto refuses = [&](const Shape& in, const LayerSpec& spec, const char* message) {
    CHECK_THROWS_WITH_AS(make(in, spec), doctest::Contains(message), ConfigError);
  };
  conv.same_padding = false;
  conv.pad_before = {0, 4, 0};
  refuses(image(2, 9, 7, 4), conv, "conv1: padding 4x0 before and 3x2 after must be at least 0 and below the window");
  conv.pad_before = {0, -1, 0};
  refuses(image(2, 9, 7, 4), conv, "must be at least 0");
  conv = conv_spec(8, {1, 1, 3}, {0, 0, 0}, false);
  conv.pad_before = {0, 1, 0};
  refuses(line(2, 9, 4), conv, "padding");
  LayerSpec pool = layer(LayerKind::max_pool);
  pool.window = {1, 1, 4};
  pool.pad_after = {0, 0, 1};
  refuses(line(2, 9, 4), pool, "max_pool: pooling takes no padding");
}

TEST_CASE_FIXTURE(Fixture, "layer facts: dilation and transposed convolution") {
  LayerSpec conv = conv_spec(8, {1, 3, 3}, {1, 1, 1}, false);
  conv.dilation = {1, 1, 4};
  CHECK(make(image(2, 9, 12, 4), conv)->output() == image(2, 7, 4, 8));
  CHECK(make(image(2, 9, 12, 4), conv)->signature() == "conv 4->8 k3x3 s1x1 d1x4");
  conv.dilation = {1, 1, 1};
  CHECK(make(image(2, 9, 12, 4), conv)->signature() == "conv 4->8 k3x3 s1x1");
  conv.dilation = {5, 1, 1};  // an axis with one tap has none
  CHECK(make(image(2, 9, 12, 4), conv)->signature() == "conv 4->8 k3x3 s1x1");

  LayerSpec up = conv_spec(8, {1, 1, 4}, {1, 1, 2}, false);
  up.kind = LayerKind::conv_transpose;
  up.pad_before = up.pad_after = {0, 0, 1};
  const auto transposed = make(line(2, 10, 16), up);
  CHECK(transposed->output() == line(2, 20, 8));
  CHECK(transposed->signature() == "conv_transpose 16->8 k4 s2 p1+1");
  CHECK(transposed->flop() == 2.0 * 10 * 16 * 4 * 8);
  CHECK(transposed->footprint().params[0].shape == std::vector<Index>{16, 4, 8});
  CHECK(transposed->footprint().params[1].shape == std::vector<Index>{8});
  up.same_padding = true;
  CHECK(make(line(2, 10, 16), up)->output() == line(2, 20, 8));
  CHECK(make(line(2, 10, 16), up)->signature() == "conv_transpose 16->8 k4 s2 same");

  LayerSpec local = conv_spec(8, {1, 3, 4}, {1, 2, 1}, false);
  local.kind = LayerKind::locally_connected, local.name = "untied1";
  const auto untied = make(image(2, 9, 12, 3), local);
  CHECK(untied->output() == image(2, 4, 9, 8));
  CHECK(untied->signature() == "locally_connected 3->8 k3x4 s2x1 at 4x9");  // its weights fit no other size
  CHECK(untied->flop() == 2.0 * 4 * 9 * 8 * 3 * 4 * 3);
  CHECK(untied->footprint().params[0].shape == std::vector<Index>{4, 9, 8, 3, 4, 3});
  CHECK(untied->footprint().params[1].shape == std::vector<Index>{4, 9, 8});

  const auto refuses = [&](const Shape& in, const LayerSpec& spec, const char* message) {
    CHECK_THROWS_WITH_AS(make(in, spec), doctest::Contains(message), ConfigError);
  };
  refuses(image(2, 9, 3, 3), local, "untied1: window 3x4 is larger than its input 9x3x3");
  refuses(flat(2, 48), local, "untied1: its input 48 has no positions; use dense");
  conv.dilation = {1, 1, 6};
  refuses(image(2, 9, 12, 4), conv,
          "conv1: window 3x3 with dilation 1x6 (3x13 positions) is larger than its input 9x12x4");
  conv.pad_before = {0, 0, 13};
  refuses(image(2, 9, 12, 4), conv, "below the window 3x3 with dilation 1x6 (3x13 positions)");
  conv.dilation = {1, 0, 1};
  refuses(image(2, 9, 12, 4), conv, "dilation must be at least 1");
  up.same_padding = false;
  up.pad_before = up.pad_after = {0, 0, 3};
  refuses(line(2, 1, 16), up, "conv1: padding 3 before and 3 after leaves nothing of the output for its input 1x16");
}

TEST_CASE_FIXTURE(Fixture, "layer facts: group norm, upsampling, global average pooling") {
  LayerSpec norm = layer(LayerKind::group_norm);
  norm.groups = 4;
  CHECK(make(line(2, 99, 32), norm)->signature() == "group_norm 32 g4");
  CHECK(make(line(2, 99, 32), norm)->signature() == make(line(2, 49, 32), norm)->signature());
  CHECK(make(line(2, 99, 32), norm)->footprint().state.empty());
  CHECK(make(line(2, 99, 32), layer(LayerKind::layer_norm))->signature() == "layer_norm 32");
  std::vector<float> params(64, -1);
  Rng rng(1);
  make(line(2, 99, 32), norm)->initialise(rng, params, {});
  CHECK(params[31] == 1.0F);
  CHECK(params[32] == 0.0F);

  LayerSpec up = layer(LayerKind::upsample);
  up.window = {1, 2, 3};
  CHECK(make(image(2, 5, 7, 3), up)->output() == image(2, 10, 21, 3));
  CHECK(make(image(2, 5, 7, 3), up)->signature() == "upsample nearest f2x3");
  const LayerSpec average = layer(LayerKind::global_average_pool);
  CHECK(make(image(2, 5, 7, 3), average)->output() == flat(2, 3));
  CHECK(make(image(2, 5, 7, 3), average)->signature() == make(image(2, 4, 3, 3), average)->signature());

  const auto refuses = [&](const Shape& in, const LayerSpec& spec, const char* message) {
    CHECK_THROWS_WITH_AS(make(in, spec), doctest::Contains(message), ConfigError);
  };
  norm.groups = 5;
  refuses(line(2, 99, 32), norm, "group_norm: 5 groups do not divide the 32 channels of its input 99x32");
  norm.groups = 0;
  refuses(line(2, 99, 32), norm, "0 groups");
  norm.groups = 32;
  refuses(flat(2, 32), norm, "group_norm: a group of its input 32 is a single value");
  norm.groups = 4;
  norm.epsilon = 0.0F;
  refuses(line(2, 99, 32), norm, "epsilon");
  refuses(flat(2, 32), up, "upsample: its input 32 has no positions");
  up.window = {2, 2, 2};
  refuses(image(2, 5, 7, 3), up, "more axes than its input 5x7x3");
  refuses(flat(2, 32), average, "global_average_pool: its input 32 has no positions");
}

TEST_CASE_FIXTURE(Fixture, "layer facts: the others") {
  LayerSpec pool = layer(LayerKind::max_pool);
  pool.window = {1, 1, 4};
  const auto pooled = make(line(2, 1597, 30), pool);
  CHECK(pooled->output() == line(2, 399, 30));
  CHECK(pooled->footprint().cache * 4 >= 2 * 399 * 30);
  pool.stride = {1, 1, 2};
  CHECK(make(line(2, 1597, 30), pool)->output() == line(2, 797, 30));

  CHECK(make(line(2, 24, 180), layer(LayerKind::flatten))->output() == flat(2, 4320));
  LayerSpec dense = layer(LayerKind::dense);
  dense.units = 512;
  CHECK(make(flat(2, 4320), dense)->signature() == "dense 4320->512");
  CHECK(make(flat(2, 4320), dense)->flop() == 2.0 * 4320 * 512);
  CHECK(make(flat(2, 4320), dense)->output() == flat(2, 512));

  // A norm over channels moves between resolutions, one over flat features does not.
  const LayerSpec norm = layer(LayerKind::batch_norm);
  CHECK(make(line(2, 99, 30), norm)->signature() == make(line(2, 49, 30), norm)->signature());
  CHECK(make(flat(2, 4320), norm)->signature() == "batch_norm 4320");
  CHECK(make(flat(2, 4320), norm)->footprint().state[1].name == "running_variance");
}

TEST_CASE_FIXTURE(Fixture, "layer facts: the fused layer takes the convolution's place") {
  const LayerSpec conv = conv_spec(30, {1, 1, 4}, {0, 0, 0}, false);
  LayerSpec pool = layer(LayerKind::max_pool);
  pool.window = {1, 1, 4};
  const auto plain = make(line(2, 100, 3), conv), fused = make_conv_pool_relu(*backend, line(2, 100, 3), conv, pool);
  REQUIRE(fused != nullptr);
  CHECK(fused->signature() == plain->signature());
  CHECK(fused->flop() == plain->flop());
  CHECK(fused->output() == line(2, 24, 30));
  CHECK(fused->footprint().reads_output);
  std::vector<float> a(390), b(390);
  Rng rng_a(5), rng_b(5);
  plain->initialise(rng_a, a, {});
  fused->initialise(rng_b, b, {});
  CHECK(a == b);
  pool.stride = {1, 1, 2};
  CHECK(make_conv_pool_relu(*backend, line(2, 100, 3), conv, pool) == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "layer facts: which planes go in one pass") {
  const auto offered = [](Index rows, LayerSpec conv, const Extent& window, const Shape& in) {
    LayerSpec pool = layer(LayerKind::max_pool);
    pool.window = window;
    Shape sample = in;
    sample.n = rows;
    return make_conv_pool_relu(*make_cpu_backend(2), sample, conv, pool) != nullptr;
  };
  const LayerSpec plain = conv_spec(8, {1, 3, 3}, {0, 0, 0}, false), same = conv_spec(8, {1, 3, 3}, {0, 0, 0}, true);
  const Shape in = image(2, 20, 17, 3);
  CHECK(offered(2, plain, {1, 2, 2}, in));
  CHECK(offered(2, same, {1, 2, 2}, in));
  CHECK(offered(2, plain, {1, 15, 15}, in));
  CHECK_FALSE(offered(1, plain, {1, 2, 2}, in));                     // two threads
  CHECK_FALSE(offered(2, plain, {1, 16, 16}, image(2, 40, 40, 3)));  // more positions than a byte tells apart
  CHECK_FALSE(offered(2, plain, {1, 2, 2}, image(2, 1024, 1024, 3)));
  CHECK_FALSE(offered(2, conv_spec(8, {1, 3, 3}, {1, 2, 2}, false), {1, 2, 2}, in));
  LayerSpec dilated = plain;
  dilated.dilation = {1, 2, 2};
  CHECK_FALSE(offered(2, dilated, {1, 2, 2}, in));
  CHECK_FALSE(offered(2, conv_spec(8, {3, 3, 3}, {0, 0, 0}, true), {2, 2, 2}, volume(2, {4, 6, 5}, 4)));
}

TEST_CASE_FIXTURE(Fixture, "layer facts: initialisers") {
  LayerSpec dense = layer(LayerKind::dense);
  dense.units = 400;
  LayerSpec conv = conv_spec(200, {1, 1, 3}, {0, 0, 0}, false);
  struct Expected {
    Initialiser initialiser;
    double dense, conv;
    bool biases;
  };
  // Dense 600 -> 400: fans 600 and 400. Convolution 100 -> 200, kernel 3: fans 300 and 600.
  for (const Expected& e : {Expected{Initialiser::pytorch, std::sqrt(1.0 / 600), std::sqrt(1.0 / 300), true},
                            Expected{Initialiser::glorot, std::sqrt(6.0 / 1000), std::sqrt(6.0 / 900), false},
                            Expected{Initialiser::he, std::sqrt(6.0 / 600), std::sqrt(6.0 / 300), false}}) {
    dense.initialiser = conv.initialiser = e.initialiser;
    const Drawn d = draw(*make(flat(1, 600), dense), 240000);
    const Drawn c = draw(*make(line(1, 5, 100), conv), 60000);
    // The largest of 60,000 uniform draws lies within 1e-3 of the bound; a uniform's mean square is bound^2 / 3,
    // known to 1/sqrt(60,000) = 0.4 % (one standard deviation is 0.9 of that).
    CHECK(d.largest_weight == doctest::Approx(e.dense).epsilon(0.02).scale(0));
    CHECK(c.largest_weight == doctest::Approx(e.conv).epsilon(0.02).scale(0));
    CHECK(d.mean_square == doctest::Approx(e.dense * e.dense / 3).epsilon(0.05).scale(0));
    CHECK(c.mean_square == doctest::Approx(e.conv * e.conv / 3).epsilon(0.05).scale(0));
    CHECK(d.largest_bias <= e.dense);
    CHECK((d.largest_bias > 0.9 * e.dense) == e.biases);
    CHECK((d.largest_bias == 0) != e.biases);
  }
  std::vector<float> params(60, -1), state(60, -1);
  Rng rng(1);
  make(flat(2, 30), layer(LayerKind::batch_norm))->initialise(rng, params, state);
  CHECK(params[29] == 1.0F);
  CHECK(params[30] == 0.0F);
  CHECK(state[29] == 0.0F);
  CHECK(state[30] == 1.0F);
}

TEST_CASE_FIXTURE(Fixture, "layer facts: impossible layers are refused by name") {
  const auto refuses = [&](const Shape& in, const LayerSpec& spec, const char* message) {
    CHECK_THROWS_WITH_AS(make(in, spec), doctest::Contains(message), ConfigError);
  };
  refuses(line(1, 3, 30), conv_spec(90, {1, 1, 4}, {0, 0, 0}, false), "conv1: window 4 is larger than its input 3x30");
  refuses(line(1, 9, 30), conv_spec(0, {1, 1, 4}, {0, 0, 0}, false), "conv1: 0 output channels");
  refuses(line(1, 9, 30), conv_spec(8, {1, 3, 4}, {0, 0, 0}, false), "more axes than its input 9x30");
  refuses(line(1, 9, 30), conv_spec(8, {1, 3, 4}, {0, 0, 0}, true), "more axes than its input 9x30");
  refuses(line(1, 9, 30), conv_spec(8, {1, 1, 0}, {0, 0, 0}, false), "must be at least 1");
  refuses(line(1, 9, 30), conv_spec(8, {1, 1, 4}, {1, 1, -1}, false), "must be at least 1");

  LayerSpec pool = layer(LayerKind::max_pool);
  pool.window = {1, 1, 4};
  refuses(line(1, 3, 180), pool, "max_pool: window 4 is larger than its input 3x180");
  pool.window = {1, 17, 16};
  refuses(image(1, 99, 99, 4), pool, "at most 256");
  pool.kind = LayerKind::average_pool;
  CHECK_NOTHROW(make(image(1, 99, 99, 4), pool));

  LayerSpec dense = layer(LayerKind::dense);
  refuses(flat(1, 9), dense, "dense: 0 units");
  dense.units = 3;
  refuses(line(1, 9, 2), dense, "put a flatten before it");

  LayerSpec dropout = layer(LayerKind::dropout);
  dropout.rate = 1.0F;
  refuses(flat(1, 9), dropout, "dropout: rate 1");
  LayerSpec leaky = layer(LayerKind::leaky_relu);
  leaky.slope = 0.0F;
  refuses(flat(1, 9), leaky, "slope 0");
  LayerSpec scaled = layer(LayerKind::tanh);
  scaled.scale = 0.0F;
  refuses(flat(1, 9), scaled, "scale 0");
  LayerSpec norm = layer(LayerKind::batch_norm);
  norm.epsilon = 0.0F;
  refuses(flat(1, 9), norm, "epsilon");
  norm = layer(LayerKind::batch_norm);
  norm.momentum = 1.5F;
  refuses(flat(1, 9), norm, "momentum");
}

}  // namespace mrmf::test
