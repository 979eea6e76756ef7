// A convolution fused with the batch norm of its output and what follows it, against the layers run one after the
// other.
#include <doctest/doctest.h>

#include "tests/unit/support/fused_network.hpp"

namespace mrmf::test {
namespace {

struct ConvNormCase {
  std::string title;
  Shape in;
  std::vector<LayerSpec> layers;
  std::size_t units;  ///< when they are fused
};

LayerSpec same_conv(Index units, const Extent& window, const Extent& stride = {1, 1, 1}) {
  return conv(units, window, stride, true);
}
LayerSpec leaky(float slope) {
  LayerSpec spec = layer(LayerKind::leaky_relu);
  spec.slope = slope;
  return spec;
}
LayerSpec average_pool(const Extent& window) {
  LayerSpec spec = layer(LayerKind::average_pool);
  spec.window = spec.stride = window;
  return spec;
}

/// `from` by the numbers of layers, as name_layers() will name them.
LayerSpec add_of(const std::string& one, const std::string& other) {
  LayerSpec spec = layer(LayerKind::add);
  spec.from = {one, other};
  return spec;
}
LayerSpec from(LayerSpec spec, const std::string& name) {
  spec.from = {name};
  return spec;
}

/// Of planes that the direct kernels serve, with enough of them for several in each part of the sums. A layer before
/// them wants their dx.
std::vector<ConvNormCase> conv_norm_cases() {
  const Extent flat{1, 3, 3}, cube{3, 3, 3}, half{2, 2, 2};
  const LayerSpec norm = layer(LayerKind::batch_norm), relu = layer(LayerKind::relu), before = conv(6, {1, 1, 1});
  return {
      {"2-D, first", image(90, 9, 10, 3), {same_conv(16, flat), norm}, 1},
      {"2-D, dx", image(90, 9, 11, 5), {before, same_conv(32, flat), norm}, 2},
      {"2-D, dx, ReLU, odd sizes", image(80, 13, 9, 5), {before, same_conv(48, flat), norm, relu}, 2},
      {"2-D, dx, leaky, rows of windows left",
       image(9, 31, 33, 4),
       {before, same_conv(16, flat), norm, leaky(0.2F), average_pool({1, 2, 4})},
       2},
      {"2-D, small planes together", image(99, 8, 8, 16), {before, same_conv(64, flat), norm, relu}, 2},
      {"2-D, strides, dx", image(40, 20, 22, 4), {before, same_conv(16, flat, {1, 2, 2}), norm, relu}, 2},
      {"3-D, behind the input's batch norm",
       volume(5, {20, 9, 8}, 4),
       {norm, same_conv(16, cube), norm, leaky(0.3F), average_pool(half)},
       1},
      {"3-D, behind the input's batch norm, whole planes for its sums in bands",
       volume(1, {5, 200, 70}, 3),
       {norm, same_conv(16, cube), norm, relu},
       1},
      {"3-D, dx, ReLU, pool",
       volume(4, {20, 10, 9}, 4),
       {before, same_conv(32, cube), norm, relu, average_pool(half)},
       2},
      {"3-D, dx, two in a row",
       volume(4, {18, 9, 8}, 2),
       {same_conv(16, cube), norm, relu, same_conv(16, cube), norm, relu},
       2},
      {"2-D, residual block",
       image(40, 13, 9, 5),
       {before, relu, same_conv(6, flat), norm, relu, same_conv(6, flat), norm, add_of("batch_norm2", "relu1"), relu,
        layer(LayerKind::sigmoid)},  // over its output, which backward reads
       5},
      {"2-D, residual blocks in a row, of a convolution each",
       image(40, 12, 9, 5),
       {same_conv(16, flat), relu, same_conv(16, flat), norm, add_of("relu1", "batch_norm1"), leaky(0.2F),
        same_conv(16, flat), norm, add_of("batch_norm2", "leaky_relu1"), relu},
       4},
      {"2-D, residual block with a convolution in its shortcut",
       image(40, 13, 9, 5),
       {before, same_conv(16, flat, {1, 2, 2}), norm, from(same_conv(16, {1, 1, 1}, {1, 2, 2}), "conv1"), norm,
        add_of("batch_norm1", "batch_norm2"), relu},
       3},
      {"3-D, a shortcut and no activation",
       volume(4, {20, 10, 9}, 4),
       {before, same_conv(16, cube), norm, from(same_conv(16, cube), "conv1"), norm,
        add_of("batch_norm2", "batch_norm1")},
       3},
      {"2-D, shortcuts whose sum is added up once more",
       image(40, 8, 8, 5),
       {before, same_conv(16, flat), norm, from(same_conv(16, flat), "conv1"), norm,
        add_of("batch_norm2", "batch_norm1"), from(same_conv(16, flat), "conv1"), norm, relu, add_of("add1", "relu1"),
        add_of("add2", "add1")},
       6},
      {"2-D, a shortcut from the network's input, and a norm that others read, too",
       image(40, 8, 8, 16),
       {same_conv(16, flat), norm, add_of("batch_norm1", "input"), relu, same_conv(16, flat), norm,
        add_of("batch_norm2", "relu1"), add_of("add2", "batch_norm2")},
       6},
  };
}

FusedNetwork network_of(Backend& backend, const ConvNormCase& c, bool fuse) { return {backend, c.in, c.layers, fuse}; }

// Float sums as elsewhere (Agreement in check_layer.hpp). Gradients go through a batch norm, which takes their means
// away: its rounding is of terms that are larger than what is left (test_bias_in_norm.cpp).
void check_same(const FusedNetwork& got, const FusedNetwork& want) {
  CHECK(relative_distance(got.y, want.y) < 1e-5);
  for (std::size_t i = 0; i < want.model.network().size(); ++i)
    if (!want.grads_of(i).empty()) {
      INFO(want.model.network().entry(i).name);
      CHECK(relative_distance(got.grads_of(i), want.grads_of(i)) < 5e-5);
    }
  CHECK(relative_distance(got.state, want.state) < 5e-6);
}

}  // namespace

TEST_CASE("convolution fused with its batch norm: the layers one after the other") {
  const auto reference = make_reference_backend();
  for (const ConvNormCase& c : conv_norm_cases()) {
    for (const int threads : {1, 2}) {
      INFO(c.title, ", threads: ", threads);
      const auto backend = make_cpu_backend(threads);
      FusedNetwork fused = network_of(*backend, c, true), plain = network_of(*reference, c, false);
      REQUIRE(fused.model.units().size() == c.units);
      REQUIRE(plain.model.units().size() == c.layers.size());
      for (const Index rows : {c.in.n, c.in.n / 3 + 1}) {
        fused.run(0, rows, nullptr);
        plain.run(0, rows, nullptr);
        check_same(fused, plain);
      }
      // Their running statistics are apart by rounding alone.
      CHECK(relative_distance(fused.evaluate(), plain.evaluate()) < 1e-5);
    }
  }
}

TEST_CASE("convolution fused with its batch norm: the same bits in every run") {
  for (const ConvNormCase& c : conv_norm_cases()) {
    INFO(c.title);
    const auto backend = make_cpu_backend(2);
    FusedNetwork fused = network_of(*backend, c, true);
    fused.run(0, c.in.n, nullptr);
    const std::vector<float> y = fused.y, grads = fused.grads;
    fused.run(0, c.in.n, nullptr);
    CHECK(fused.y == y);
    CHECK(fused.grads == grads);
  }
}

TEST_CASE("convolution fused with its batch norm: by each of the kernels that trials may choose") {
  const auto reference = make_reference_backend();
  for (const ConvNormCase& c : conv_norm_cases()) {
    FusedNetwork plain = network_of(*reference, c, false);
    plain.run(0, c.in.n, nullptr);
    for (const char* kernels : {"winograd", "planes", "squares", "direct", "winograd512", "planes512", "squares512",
                                "direct512", "amx", "amx_winograd", "onednn", "onednn winograd direct",
                                "winograd direct onednn", "planes direct winograd", "apart"}) {
      INFO(kernels, ": ", c.title);
      const auto backend = backend_with(kernels, c.in, c.layers);
      FusedNetwork fused = network_of(*backend, c, true);
      CHECK(fused.model.units().size() == c.units);  // whatever the kernels: ranks may have others
      fused.run(0, c.in.n, nullptr);
      check_same(fused, plain);
    }
  }
}

TEST_CASE("convolution fused with its batch norm: two ranks have the gradients of the whole batch") {
  for (const ConvNormCase& c : conv_norm_cases()) {
    if (c.in.n < 3) continue;
    INFO(c.title);
    compare_two_ranks(c.in, c.layers, [](const FusedNetwork& ranks, const FusedNetwork& whole) {
      CHECK(relative_distance(ranks.y, whole.y) < 1e-5);
      CHECK(relative_distance(ranks.grads, whole.grads) < 5e-5);
      CHECK(relative_distance(ranks.state, whole.state) < 5e-6);
    });
  }
}

// Outputs that are written past the caches: by the kernels that add moments themselves, and by those that leave them to
// a pass of their own. Without a ReLU: of so many positions, rounding puts some on its other side.
TEST_CASE("convolution fused with its batch norm: outputs past the caches") {
  const LayerSpec norm = layer(LayerKind::batch_norm);
  const ConvNormCase c{"", volume(2, {50, 96, 96}, 4), {norm, same_conv(32, {3, 3, 3}), norm}, 1};
  const auto apart = make_cpu_backend(2);
  FusedNetwork plain = network_of(*apart, c, false);
  plain.run(0, c.in.n, nullptr);
  for (const char* kernels : {"winograd", "planes", "squares", "direct"}) {
    INFO(kernels);
    const auto backend = backend_with(kernels, c.in, c.layers);
    FusedNetwork fused = network_of(*backend, c, true);
    fused.run(0, c.in.n, nullptr);
    check_same(fused, plain);
  }
}

}  // namespace mrmf::test
