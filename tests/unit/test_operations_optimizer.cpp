// SGD, Adam and AdamW over several steps against the algorithms written in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

/// Odd, and long enough to be shared between threads.
constexpr std::size_t kCount = 20011;
constexpr int kUpdates = 6;

struct Doubles {
  std::vector<double> w, m, v;
  explicit Doubles(const std::vector<float>& start)
      : w(start.begin(), start.end()), m(start.size(), 0.0), v(start.size(), 0.0) {}
};

std::vector<float> step_gradient(int step) {
  Rng rng(mix(100, static_cast<std::uint64_t>(step)));
  return uniform(rng, kCount);
}

void check_updated(ConstSpan values, const std::vector<double>& expected) {
  // Six updates in float: each rounds a value of size 1 a few times (6e-8).
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) worst = std::max(worst, std::abs(values[i] - expected[i]));
  CHECK(worst < 2e-6);
}

struct OptimizedWeights {
  Backend& backend;
  Arena w = backend.allocate(kCount), m = backend.allocate(kCount), v = backend.allocate(kCount);
  std::vector<float> start;
  explicit OptimizedWeights(Backend& b) : backend(b) {
    Rng rng(9);
    start = uniform(rng, kCount);
    std::ranges::copy(start, w.span().begin());
  }
};

struct Decay {
  double coupled, decoupled;
};

/// Kingma & Ba 2014, algorithm 1; Loshchilov & Hutter 2017, algorithm 2 with the learning rate on the decay.
void adam_in_double(Doubles& d, const std::vector<float>& dw, int t, const Decay& decay) {
  for (std::size_t i = 0; i < kCount; ++i) {
    const double g = dw[i] + decay.coupled * d.w[i];
    d.m[i] = 0.9 * d.m[i] + 0.1 * g;
    d.v[i] = 0.99 * d.v[i] + 0.01 * g * g;
    const double m_hat = d.m[i] / (1 - std::pow(0.9, t)), v_hat = d.v[i] / (1 - std::pow(0.99, t));
    d.w[i] -= 0.01 * decay.decoupled * d.w[i] + 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
}

}  // namespace

TEST_CASE("operations: SGD with momentum and weight decay") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    OptimizedWeights weights(*backend);
    Doubles d(weights.start);
    for (int t = 1; t <= kUpdates; ++t) {
      const auto dw = step_gradient(t);
      StepContext step;
      step.sgd = {0.05F, 0.9F, 0.02F};
      backend->begin(step);
      backend->sgd(step, weights.w.span(), dw, weights.v.span());
      for (std::size_t i = 0; i < kCount; ++i) {
        d.v[i] = 0.9 * d.v[i] + dw[i] + 0.02 * d.w[i];
        d.w[i] -= 0.05 * d.v[i];
      }
    }
    check_updated(weights.w.span(), d.w);
    check_updated(weights.v.span(), d.v);
  }
}

TEST_CASE("operations: Adam, with weight decay, and AdamW") {
  for (const auto& backend : backends())
    for (const Decay& decay : {Decay{0, 0}, Decay{0.1, 0}, Decay{0, 0.1}}) {
      const std::size_t group = decay.decoupled > 0 ? 1 : 0;  // the other's numbers stay what would show: a rate of 0
      INFO(backend->name(), ", decay ", decay.coupled, ", decoupled ", decay.decoupled);
      OptimizedWeights weights(*backend);
      Doubles d(weights.start);
      for (int t = 1; t <= kUpdates; ++t) {
        const auto dw = step_gradient(t);
        StepContext step;
        step.adam[group] = AdamStep{.learning_rate = 0.01F,
                                    .beta1 = 0.9F,
                                    .beta2 = 0.99F,
                                    .epsilon = 1e-8F,
                                    .weight_decay = static_cast<float>(decay.coupled),
                                    .decoupled_decay = static_cast<float>(decay.decoupled),
                                    .correction1 = static_cast<float>(1 - std::pow(0.9, t)),
                                    .correction2 = static_cast<float>(1 - std::pow(0.99, t))};
        backend->begin(step);
        backend->adam(step, group, weights.w.span(), dw, weights.m.span(), weights.v.span());
        adam_in_double(d, dw, t, decay);
      }
      check_updated(weights.w.span(), d.w);
      check_updated(weights.m.span(), d.m);
      check_updated(weights.v.span(), d.v);
    }
}

TEST_CASE("operations: clipping scales values to the norm, and leaves smaller and undefined ones") {
  Rng rng(4);
  const std::vector<float> start = uniform(rng, kCount);
  double squares = 0;
  for (const float value : start) squares += double{value} * value;
  const double norm = std::sqrt(squares);
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto clip = backend->clip(kCount);
    std::vector<float> x = start;
    clip->run(x, static_cast<float>(norm / 4));
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) worst = std::max(worst, std::abs(x[i] - start[i] / 4.0));
    CHECK(worst < 1e-7);
    x = start;
    clip->run(x, static_cast<float>(norm * 1.001));
    CHECK(x == start);
    clip->run(Span(x).first(7), 1e-3F);  // fewer values, with a norm of their own
    CHECK(std::vector<float>(x.begin() + 7, x.end()) == std::vector<float>(start.begin() + 7, start.end()));
    double seven = 0;
    for (int i = 0; i < 7; ++i) seven += double{x[static_cast<std::size_t>(i)]} * x[static_cast<std::size_t>(i)];
    CHECK(std::sqrt(seven) == doctest::Approx(1e-3).epsilon(1e-5));
    x = start;
    x[5] = std::numeric_limits<float>::quiet_NaN();
    clip->run(x, 1e-3F);
    CHECK(x[6] == start[6]);
    CHECK(std::isnan(x[5]));
    x[5] = std::numeric_limits<float>::infinity();  // no factor makes it shorter, and zeros would hide it
    clip->run(x, 1e-3F);
    CHECK(x[6] == start[6]);
    CHECK(std::isinf(x[5]));
    x[5] = 1e25F;  // its square is no float
    clip->run(x, 1e20F);
    CHECK(x[5] == doctest::Approx(1e20));
    CHECK(x[6] == doctest::Approx(1e-5 * start[6]));
  }
}

TEST_CASE("operations: the norm has the same bits on any number of threads") {
  Rng rng(5);
  const std::vector<float> start = uniform(rng, 5 * kCount);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(threads);
    std::vector<float> x = start;
    backend->clip(std::ssize(x))->run(x, 0.5F);
    results.push_back(x);
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("operations: accumulate adds to what is there") {
  Rng rng(6);
  const std::vector<float> x = uniform(rng, kCount), start = uniform(rng, kCount);
  std::vector<float> expected = start;
  for (std::size_t i = 0; i < kCount; ++i) expected[i] += x[i];
  for (const auto& backend : backends()) {
    INFO(backend->name());
    std::vector<float> y = start;
    backend->accumulate(x, y);
    CHECK(y == expected);
  }
}

}  // namespace mrmf::test
