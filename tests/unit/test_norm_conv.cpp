// The batch norm of a network's input fused with its convolution, against the two layers run one after the other.
#include <doctest/doctest.h>

#include "src/bench/bench.hpp"
#include "tests/unit/support/fused_network.hpp"

namespace mrmf::test {
namespace {

struct NormConvCase {
  std::string title;
  Shape in;
  LayerSpec conv;
};

LayerSpec padded_conv(Index units, const Extent& window, const Extent& stride = {1, 1, 1},
                      const Extent& before = {0, 0, 0}, const Extent& after = {0, 0, 0}) {
  LayerSpec spec = layer(LayerKind::conv, units);
  spec.window = window;
  spec.stride = stride;
  spec.pad_before = before;
  spec.pad_after = after;
  return spec;
}

std::vector<NormConvCase> norm_conv_cases() {
  const Extent one{1, 1, 1}, two{2, 2, 2};
  return {
      {"1-D", line(7, 23, 3), padded_conv(5, {1, 1, 4})},
      {"1-D, stride 2, zeros differ", line(6, 17, 4), padded_conv(8, {1, 1, 4}, {1, 1, 2}, {0, 0, 1}, {0, 0, 3})},
      {"1-D, windows that miss most of the input", line(6, 3, 2), padded_conv(4, {1, 1, 5}, one, {0, 0, 4}, {0, 0, 4})},
      {"2-D, stride 3x1", image(4, 10, 9, 3), padded_conv(8, {1, 3, 2}, {1, 3, 1}, {0, 2, 0}, {0, 0, 1})},
      {"2-D, the direct kernels", image(4, 11, 13, 5), padded_conv(16, {1, 3, 3}, one, {0, 1, 2}, {0, 2, 0})},
      {"3-D, zeros on all sides", volume(3, {4, 3, 5}, 4), padded_conv(8, {3, 3, 3}, one, one, one)},
      {"3-D, stride 2, zeros after alone", volume(2, {6, 7, 8}, 4), padded_conv(8, {3, 3, 3}, two, {0, 0, 0}, one)},
      {"3-D, the direct kernels", volume(3, {4, 9, 8}, 4), padded_conv(16, {3, 3, 3}, one, one, one)},
      {"2-D, the direct kernels, no padding", image(4, 12, 10, 4), padded_conv(16, {1, 3, 3})},
      {"2-D, the direct kernels, stride 2", image(4, 19, 20, 4), padded_conv(16, {1, 3, 3}, {1, 2, 2}, {0, 1, 1})},
      {"3-D, the direct kernels, stride 2", volume(3, {4, 17, 16}, 3), padded_conv(16, {3, 3, 3}, two, one, one)},
  };
}

std::vector<LayerSpec> layers_of(const NormConvCase& c) { return {layer(LayerKind::batch_norm), c.conv}; }

FusedNetwork network_of(Backend& backend, const NormConvCase& c, bool fuse) {
  return {backend, c.in, layers_of(c), fuse};
}

// Float sums of up to some thousand terms: rounding is below 5e-6 of the norm (Agreement in check_layer.hpp). The sums
// behind gamma and beta cancel to about a tenth of their terms, so they may be ten times as far apart; a border that is
// not respected is 1e-1.
void check_same(FusedNetwork& got, FusedNetwork& want) {
  CHECK(relative_distance(got.y, want.y) < 5e-6);
  CHECK(relative_distance(got.grads, want.grads) < 5e-6);
  CHECK(relative_distance(got.grads_of(0), want.grads_of(0)) < 5e-5);  // the many of the weights would hide them
  CHECK(relative_distance(got.state, want.state) < 5e-6);
}

}  // namespace

TEST_CASE("input batch norm fused with its convolution: the gradients of the two layers, none of them of the input") {
  const auto reference = make_reference_backend();
  for (const auto& backend : {make_reference_backend(), make_cpu_backend(2)})
    for (const NormConvCase& c : norm_conv_cases()) {
      INFO(backend->name(), ": ", c.title);
      FusedNetwork fused = network_of(*backend, c, true), plain = network_of(*reference, c, false);
      REQUIRE(fused.model.units().size() == 1);
      REQUIRE(plain.model.units().size() == 2);
      for (const Index rows : {c.in.n, c.in.n / 2}) {
        fused.run(0, rows, nullptr);
        plain.run(0, rows, nullptr);
        check_same(fused, plain);
      }
    }
}

TEST_CASE("input batch norm fused with its convolution: by each of the kernels that trials may choose") {
  const auto reference = make_reference_backend();
  for (const char* kernels : {"winograd", "planes", "squares", "direct", "amx", "amx_winograd", "apart"})
    for (const NormConvCase& c : norm_conv_cases()) {
      INFO(kernels, ": ", c.title);
      const auto backend = backend_with(kernels, c.in, layers_of(c));
      FusedNetwork fused = network_of(*backend, c, true), plain = network_of(*reference, c, false);
      fused.run(0, c.in.n, nullptr);
      plain.run(0, c.in.n, nullptr);
      check_same(fused, plain);
    }
}

TEST_CASE("input batch norm fused with its convolution: evaluation uses the running statistics") {
  for (const auto& backend : {make_reference_backend(), make_cpu_backend(2)})
    for (const NormConvCase& c : norm_conv_cases()) {
      INFO(backend->name(), ": ", c.title);
      FusedNetwork fused = network_of(*backend, c, true), plain = network_of(*backend, c, false);
      CHECK(relative_distance(fused.evaluate(), plain.evaluate()) < 5e-6);
      CHECK(copy(fused.model.state()) == copy(plain.model.state()));
    }
}

TEST_CASE("input batch norm fused with its convolution: two ranks have the gradients of the whole batch") {
  for (const NormConvCase& c : norm_conv_cases()) {
    INFO(c.title);
    compare_two_ranks(c.in, layers_of(c), check_same);
  }
}

TEST_CASE("input batch norm and convolution in one: the least work counts the convolution's") {
  const auto backend = make_cpu_backend(1);
  const NormConvCase c = norm_conv_cases().back();
  FusedNetwork one = network_of(*backend, c, true);
  const Network& network = one.model.network();
  const Unit& unit = one.model.units().front();
  REQUIRE(unit.last == 2);
  const UnitWork work = unit_work(network, unit, 2);
  const auto x = static_cast<double>(c.in.count()), y = static_cast<double>(c.in.n * network.output().per_sample());
  CHECK(work.flop == 2 * static_cast<double>(c.in.n) * network.entry(1).layer->flop());
  CHECK(work.bytes == 12 * static_cast<double>(network.entry(1).params.count) + 2 * (3 * x + 2 * y));
}

}  // namespace mrmf::test
