// A NaN that enters a layer comes out of it, so that a diverged network shows in its loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_memory.hpp"

namespace mrmf::test {
namespace {

constexpr float kNan = NAN;

/// One layer with its buffers; a test puts NaN where it likes.
struct LayerRun {
  std::unique_ptr<Layer> layer;
  LayerMemory b;
  std::vector<std::int64_t> ids{4, 9};
  StepContext step{.training = true, .seed = 5, .updates_done = 3, .ids = ids, .team_sum = nullptr};

  LayerRun(Backend& backend, const LayerCase& c) : layer(make_case(backend, c)), b(*layer, c.in, c.in.n) {
    b.fill(*layer, 77);
  }
  void forward() { b.forward(*layer, step); }
  void backward() { b.backward(*layer, step); }
};

std::vector<std::size_t> nans(ConstSpan values) {
  std::vector<std::size_t> where;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i])) where.push_back(i);
  return where;
}

LayerSpec spec_for_any_kind(LayerKind kind, const Extent& window = {1, 1, 1}) {
  LayerSpec spec;
  spec.kind = kind;
  spec.window = window;
  spec.slope = 0.125F;
  spec.rate = 0.5F;
  spec.units = 19;
  return spec;
}

using Where = std::vector<std::size_t>;

}  // namespace

TEST_CASE("NaN: passes elementwise layers at its own place, forward and backward") {
  for (const auto& backend : backends())
    for (const LayerKind kind : {LayerKind::relu, LayerKind::leaky_relu, LayerKind::tanh, LayerKind::gelu,
                                 LayerKind::silu, LayerKind::softplus, LayerKind::sigmoid, LayerKind::dropout}) {
      INFO(backend->name(), " ", to_string(kind));
      LayerRun run(*backend, {"", flat(2, 37), spec_for_any_kind(kind)});
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{73}}) {
        const float x = run.b.x.span()[at], dy = run.b.dy.span()[at];
        run.b.x.span()[at] = kNan;
        run.b.dy.span()[at] = kNan;
        run.forward();
        CHECK(nans(run.b.y.span()) == Where{at});
        run.backward();
        CHECK(nans(run.b.dx.span()) == Where{at});
        run.b.x.span()[at] = x;
        run.b.dy.span()[at] = dy;
      }
    }
}

TEST_CASE("NaN: wins in a pooling window wherever it lies there, and takes the gradient") {
  for (const auto& backend : backends())
    for (const Index channels : {Index{3}, Index{37}})
      for (std::size_t position = 0; position < 4; ++position) {
        INFO(backend->name(), " position ", position, " of ", channels, " channels");
        const auto c = static_cast<std::size_t>(channels);
        LayerRun run(*backend, {"", line(2, 8, channels), spec_for_any_kind(LayerKind::max_pool, {1, 1, 4})});
        const std::size_t at = (4 + position) * c + 2;  // the second window of the first row
        run.b.x.span()[at] = kNan;
        run.b.dy.span()[c + 2] = kNan;
        run.forward();
        CHECK(nans(run.b.y.span()) == Where{c + 2});
        run.backward();
        CHECK(nans(run.b.dx.span()) == Where{at});
      }
}

TEST_CASE("NaN: passes the fused convolution, pooling and ReLU") {
  for (const auto& backend : backends())
    for (const Index pool : {Index{3}, Index{4}})
      for (const Index channels : {Index{3}, Index{30}}) {  // the first layer's gradient has a kernel of its own
        INFO(backend->name(), " pool ", pool, " channels ", channels);
        const LayerCase c{"", line(2, 43, channels), spec_for_any_kind(LayerKind::conv, {1, 1, 4}),
                          spec_for_any_kind(LayerKind::max_pool, {1, 1, pool})};
        for (Index position = 0; position < 43 - 6; ++position) {  // its last reading windows are complete
          LayerRun run(*backend, c);
          run.b.x.span()[static_cast<std::size_t>(position * channels + 1)] = kNan;
          run.forward();
          // Convolution outputs position - 3 to position read it: every channel of the windows they lie in.
          Where expected;
          for (Index window = std::max<Index>(position - 3, 0) / pool; window <= position / pool; ++window)
            for (Index o = 0; o < 19; ++o) expected.push_back(static_cast<std::size_t>(window * 19 + o));
          CHECK(nans(run.b.y.span()) == expected);
        }
        LayerRun run(*backend, c);
        run.forward();
        const auto active = std::ranges::find_if(run.b.y.span(), [](float y) { return y > 0; });
        REQUIRE(active != run.b.y.span().end());
        run.b.dy.span()[static_cast<std::size_t>(active - run.b.y.span().begin())] = kNan;
        run.backward();
        // Whole vectors are added, so a NaN times their padding of zeros may reach the elements beside the row.
        CHECK(nans(run.b.dx.span()).size() >= static_cast<std::size_t>(4 * channels));
        CHECK(nans(run.b.grads.span()).size() == static_cast<std::size_t>(4 * channels + 1));
      }
}

TEST_CASE("NaN: passes the fused convolution, pooling and ReLU of planes, to the windows that read it") {
  for (const auto& backend : backends())
    for (const Index channels : {Index{1}, Index{16}}) {
      INFO(backend->name(), " channels ", channels);
      const LayerCase c{"", image(2, 8, 9, channels), spec_for_any_kind(LayerKind::conv, {1, 3, 3}),
                        spec_for_any_kind(LayerKind::max_pool, {1, 2, 2})};
      for (Index row = 0; row < 8; ++row)
        for (Index column = 0; column < 8; ++column) {  // the last column is read by no whole window
          LayerRun run(*backend, c);
          run.b.x.span()[static_cast<std::size_t>((row * 9 + column) * channels)] = kNan;
          run.forward();
          Where expected;
          for (Index i = std::max<Index>(row - 2, 0) / 2; i <= std::min<Index>(row, 5) / 2; ++i)
            for (Index j = std::max<Index>(column - 2, 0) / 2; j <= std::min<Index>(column, 5) / 2; ++j)
              for (Index o = 0; o < 19; ++o) expected.push_back(static_cast<std::size_t>((i * 3 + j) * 19 + o));
          CHECK(nans(run.b.y.span()) == expected);
        }
    }
}

TEST_CASE("NaN: reaches the untied fields that read it, and no neighbour whose inputs are copied with theirs") {
  LayerSpec local = spec_for_any_kind(LayerKind::locally_connected, {1, 2, 7});
  local.stride = {1, 1, 1};
  local.units = 2;
  for (const auto& backend : backends())
    for (const Index rows : {Index{5}, Index{16}}) {  // of 16 rows, a vector has values of several
      INFO(backend->name(), " rows ", rows);
      const LayerCase c{"", image(rows, 12, 30, 37), local};  // runs of 259 floats: a rest behind whole vectors
      for (const Index column : {Index{0}, Index{6}, Index{7}, Index{15}, Index{29}}) {
        LayerRun run(*backend, c);
        run.b.x.span()[static_cast<std::size_t>((4 * 30 + column) * 37)] = kNan;
        run.forward();
        Where expected;
        for (Index i = 3; i <= 4; ++i)
          for (Index j = std::max<Index>(column - 6, 0); j <= std::min<Index>(column, 23); ++j)
            for (Index o = 0; o < 2; ++o) expected.push_back(static_cast<std::size_t>((i * 24 + j) * 2 + o));
        CHECK(nans(run.b.y.span()) == expected);
      }
    }
}

}  // namespace mrmf::test
