// Batch norm beyond the generic layer test: the numbers of one example, statistics of a batch spread over ranks, and
// the fused layer against its parts.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_memory.hpp"
#include "tests/unit/support/norm_step.hpp"

namespace mrmf::test {
namespace {

/// The layers of a fused case, one after the other.
struct Chain {
  Backend& backend;
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<LayerMemory> buffers;

  Chain(Backend& b, const LayerCase& c) : backend(b) {
    std::vector<LayerSpec> specs{c.spec, *c.relu};
    if (c.pool) specs.push_back(*c.pool);
    for (const LayerSpec& spec : specs) {
      const Shape in = layers.empty() ? c.in : layers.back()->output();
      layers.push_back(make_layer(backend, in, spec, 0));
      buffers.emplace_back(*layers.back(), in, in.n);
    }
  }
  /// The step on what `from`, the fused layer's memory, holds.
  void run(const LayerMemory& from, const StepContext& step) {
    buffers.front().x.set(from.x.span());
    buffers.front().params.set(from.params.span());
    buffers.front().state.set(from.state.span());
    buffers.back().dy.set(from.dy.span());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i > 0) buffers[i].x.set(buffers[i - 1].y.span());
      buffers[i].forward(*layers[i], step);
    }
    for (std::size_t i = layers.size(); i-- > 0;) {
      if (i + 1 < layers.size()) buffers[i].dy.set(buffers[i + 1].dx.span());
      buffers[i].backward(*layers[i], step);
    }
  }
};

/// A window of one position: no pooling.
NormLayer fused(const Shape& in, float slope, const Extent& window) {
  NormReluPool settings{
      .norm = {.channels = in.channels}, .in = in.spatial, .axes = in.axes, .slope = slope, .pool = {}};
  if (product(window) > 1) settings.pool = {PoolKind::average, in.channels, in.spatial, window, window};
  return {in, settings};
}

}  // namespace

TEST_CASE("batch norm: biased variance normalises, the unbiased one is remembered") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const std::vector<float> x{1, 3}, dy{1, 0};
    NormStep step({flat(2, 1)}, x, dy);
    step.run(*backend, nullptr);
    // mean 2, biased variance 1, unbiased 2; the running values start at 0 and 1 and take a tenth.
    CHECK(step.y[0] == doctest::Approx(1.0 - 2.0 / std::sqrt(1.0 + 1e-5)));
    CHECK(step.y[1] == doctest::Approx(1.0 + 2.0 / std::sqrt(1.0 + 1e-5)));
    CHECK(step.running_mean[0] == doctest::Approx(0.2));
    CHECK(step.running_variance[0] == doctest::Approx(1.1));
    CHECK(step.dbeta[0] == doctest::Approx(1.0));
    CHECK(step.dgamma[0] == doctest::Approx(-1.0 / std::sqrt(1.0 + 1e-5)));
  }
}

TEST_CASE("batch norm: of a single value nothing depends on x, and dx is exactly zero") {
  for (const auto& backend : backends())
    for (const NormLayer& layer : {NormLayer{flat(1, 40)}, fused(line(1, 1, 40), 0.3F, {1, 1, 1})}) {
      INFO(backend->name());
      const std::vector<float> x(40, 0.7F), dy(40, 1.1F);
      NormStep step(layer, x, dy);
      step.run(*backend, nullptr);
      CHECK(std::ranges::all_of(step.dx, [](float value) { return value == 0; }));
    }
}

TEST_CASE("batch norm: two ranks have the statistics and gradients of the whole batch") {
  for (const Shape& whole : {flat(12, 31), line(6, 5, 8)}) check_two_ranks({whole});
}

TEST_CASE("batch norm: two ranks have the whole batch's statistics with ReLU and pooling behind it, too") {
  check_two_ranks(fused(line(6, 5, 9), 0.0F, {1, 1, 1}));
  check_two_ranks(fused(line(6, 7, 8), 0.3F, {1, 1, 2}));
  check_two_ranks(fused(volume(6, {4, 2, 5}, 7), 0.1F, {2, 2, 2}));
}

TEST_CASE("batch norm: fused with ReLU and pooling it does what the three layers do") {
  for (const auto& backend : backends())
    for (const LayerCase& c : norm_relu_pool_cases()) {
      INFO(backend->name(), ": ", c.title);
      const auto layer = make_case(*backend, c);
      if (!layer) continue;
      LayerMemory b(*layer, c.in, c.in.n);
      b.fill(*layer, 5);
      Chain chain(*backend, c);
      const StepContext step;
      chain.run(b, step);
      b.forward(*layer, step);
      b.backward(*layer, step);
      const LayerMemory &norm = chain.buffers.front(), &last = chain.buffers.back();
      CHECK(relative_distance(b.y.span(), last.y.span()) < Agreement{}.y);
      CHECK(relative_distance(b.dx.span(), norm.dx.span()) < Agreement{}.dx);
      CHECK(relative_distance(b.grads.span(), norm.grads.span()) < Agreement{}.params);
      CHECK(relative_distance(b.state.span(), norm.state.span()) < Agreement{}.params);
    }
}

}  // namespace mrmf::test
