// Reconstruction ICA: the gradient of the whole objective against differences of it, and rows of length 1.
#include <doctest/doctest.h>

#include <cmath>

#include "layers/layer.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

struct Problem {
  Shape in = image(3, 6, 7, 2);
  LayerSpec spec;
  Extent out{1, 2, 3};
  Index kernel = 3, stride = 2, units = 4, pooled = 2;

  Problem() {
    spec.kind = LayerKind::rica;
    spec.units = units;
    spec.window = {1, kernel, kernel};
    spec.stride = {1, stride, stride};
    spec.groups = units / pooled;
    spec.sparsity = 0.7F;
    spec.root_epsilon = 0.05F;
  }
  Index field() const { return kernel * kernel * in.channels; }
  Index weights() const { return product(out) * units * field(); }

  /// Element `tap` of the field of position p in a sample.
  Index element(Index p, Index tap) const {
    const Index row = p / out[2] * stride + tap / (kernel * in.channels);
    const Index column = p % out[2] * stride + tap / in.channels % kernel;
    return (row * in.spatial[2] + column) * in.channels + tap % in.channels;
  }

  /// The sum over samples of (|D'Wx - x|^2 + sparsity * the sum of roots) / values of a sample, naively in double.
  double objective(const std::vector<double>& w, const std::vector<double>& d, const std::vector<float>& x) const {
    double total = 0;
    for (Index n = 0; n < in.n; ++n) {
      const float* const sample = x.data() + n * in.per_sample();
      std::vector<double> error(static_cast<std::size_t>(in.per_sample()));
      for (Index i = 0; i < in.per_sample(); ++i) error[static_cast<std::size_t>(i)] = -sample[i];
      for (Index p = 0; p < product(out); ++p)
        for (Index group = 0; group < units; group += pooled) {
          double squares = spec.root_epsilon;
          for (Index f = group; f < group + pooled; ++f) {
            const std::size_t first = static_cast<std::size_t>((p * units + f) * field());
            double z = 0;
            for (Index t = 0; t < field(); ++t) z += w[first + static_cast<std::size_t>(t)] * sample[element(p, t)];
            for (Index t = 0; t < field(); ++t)
              error[static_cast<std::size_t>(element(p, t))] += z * d[first + static_cast<std::size_t>(t)];
            squares += z * z;
          }
          total += spec.sparsity * std::sqrt(squares);
        }
      for (const double e : error) total += e * e;
    }
    return total / static_cast<double>(in.per_sample());
  }
};

}  // namespace

TEST_CASE("reconstruction ICA: the gradient is the slope of squares and penalty together") {
  for (const auto& backend : backends())
    for (const Decoder decoder : {Decoder::tied, Decoder::own}) {
      INFO(backend->name());
      CAPTURE(static_cast<int>(decoder));
      Problem problem;
      problem.spec.decoder = decoder;
      const auto layer = make_layer(*backend, problem.in, problem.spec, 0);
      const auto weights = static_cast<std::size_t>(problem.weights());
      const std::size_t parts = decoder == Decoder::own ? 2 : 1;
      Rng rng(5);
      const std::vector<float> x = uniform(rng, static_cast<std::size_t>(problem.in.count()));
      std::vector<float> params = uniform(rng, parts * weights, -0.5, 0.5), grads(params.size(), NAN);
      std::vector<float> y(x.size(), NAN), dy(x.size()), dx(x.size());
      Arena cache = backend->allocate(layer->footprint().cache);
      StepContext step;
      step.loss_weight = 0.25F;
      backend->begin(step);
      const LayerBuffers buffers{step, params, grads, {}, cache.span()};
      layer->forward(buffers, {problem.in, x}, {problem.in, y});
      for (std::size_t i = 0; i < x.size(); ++i)
        dy[i] = 2 * step.loss_weight * (y[i] - x[i]) / static_cast<float>(problem.in.per_sample());
      layer->backward(buffers, {problem.in, x}, {problem.in, y}, {problem.in, dy}, {problem.in, dx});

      const std::vector<float> direction = uniform(rng, params.size());
      const auto moved = [&](double by) {
        std::vector<double> w(params.begin(), params.end());
        for (std::size_t i = 0; i < w.size(); ++i) w[i] += by * direction[i];
        const std::vector<double> d(w.end() - static_cast<std::ptrdiff_t>(weights), w.end());
        return step.loss_weight * problem.objective(w, d, x);
      };
      double slope = 0;
      for (std::size_t i = 0; i < grads.size(); ++i) slope += double{grads[i]} * direction[i];
      constexpr double h = 1e-5;
      const double difference = (moved(h) - moved(-h)) / (2 * h);
      CHECK(slope == doctest::Approx(difference).epsilon(1e-5));
    }
}

TEST_CASE("reconstruction ICA: rows get their length, at the start and after updates; a row of zeros stays") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Problem problem;
    problem.spec.row_length = 0.6F;
    const auto layer = make_layer(*backend, problem.in, problem.spec, 0);
    std::vector<float> params(static_cast<std::size_t>(problem.weights()));
    const auto length = [&](Index row) {
      double squares = 0;
      for (Index i = 0; i < problem.field(); ++i) {
        const double value = params[static_cast<std::size_t>(row * problem.field() + i)];
        squares += value * value;
      }
      return std::sqrt(squares);
    };
    Rng rng(3);
    layer->initialise(rng, params, {});
    CHECK(length(7) == doctest::Approx(0.6).epsilon(1e-5));
    for (float& value : params) value *= 3;
    std::fill_n(params.begin(), problem.field(), 0.0F);
    REQUIRE(layer->constrains());
    layer->constrain(params);
    CHECK(length(0) == 0);
    for (Index row = 1; row < product(problem.out) * problem.units; ++row)
      CHECK(length(row) == doctest::Approx(0.6).epsilon(1e-5));
    LayerSpec free = problem.spec;
    free.row_length = 0;
    CHECK_FALSE(make_layer(*backend, problem.in, free, 0)->constrains());
  }
}

}  // namespace mrmf::test
