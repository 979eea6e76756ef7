// Lion: ten steps against numbers that were worked out outside of the program, and the bound on its weights.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "src/training/model_and_optimizer.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

constexpr std::size_t kWeights = 5;
using LionWeights = std::array<double, kWeights>;

constexpr double kRate = 0.01, kDecay = 0.5;

/// Of one sign; of signs in turn; of a period of three, whose mean is negative; none at all; one that turns.
LionWeights lion_gradient(int t) {
  constexpr std::array<double, 3> cycle{0.5, -0.1, -0.6};
  return {0.3, t % 2 == 1 ? -0.2 : 0.25, cycle.at(static_cast<std::size_t>(t % 3)), 0, t < 3 ? 1 : -0.09};
}

constexpr LionWeights kStart{1, -0.5, 0.25, 0, 2};

/// After each of ten steps, in double: p.mul_(1 - rate * decay), update = (b1 * m + (1 - b1) * g).sign_(),
/// p.add_(update, alpha=-rate), m.mul_(b2).add_(g, alpha=1 - b2), with b1 = 0.9 and b2 = 0.99. The fourth weight has no
/// gradient: it does not move.
constexpr std::array<LionWeights, 10> kAfter{{
    {0.985, -0.4875, 0.25875, 0, 1.98},
    {0.970075, -0.4950625, 0.26745625, 0, 1.9601},
    {0.955224625, -0.4825871875, 0.2561189688, 0, 1.9402995},
    {0.9404485019, -0.4901742516, 0.2648383739, 0, 1.920598002},
    {0.9257462594, -0.4777233803, 0.273514182, 0, 1.900995012},
    {0.9111175281, -0.4853347634, 0.2621466111, 0, 1.881490037},
    {0.8965619404, -0.4729080896, 0.2708358781, 0, 1.862082587},
    {0.8820791307, -0.4805435491, 0.2794816987, 0, 1.842772174},
    {0.8676687351, -0.4681408314, 0.2680842902, 0, 1.823558313},
    {0.8533303914, -0.4758001272, 0.2767438687, 0, 1.804440522},
}};

/// kRepeats copies of the weights, so that all ways of a kernel take part.
constexpr std::size_t kRepeats = 4003;

OptimizerSettings lion_settings() {
  OptimizerSettings lion;
  lion.name = OptimizerKind::lion;
  lion.beta2 = kLionBeta2;
  lion.weight_decay = kDecay;
  return lion;
}

}  // namespace

TEST_CASE("Lion: ten steps have the numbers that are written out") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const Index count = kWeights * kRepeats;
    Optimizer optimizer(*backend, lion_settings(), count);
    Arena weights = backend->allocate(count), gradients = backend->allocate(count);
    std::vector<float> w(static_cast<std::size_t>(count)), dw(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(kStart[i % kWeights]);
    backend->write(w, weights.span());
    for (std::size_t t = 0; t < kAfter.size(); ++t) {
      for (std::size_t i = 0; i < dw.size(); ++i)
        dw[i] = static_cast<float>(lion_gradient(static_cast<int>(t) + 1)[i % kWeights]);
      backend->write(dw, gradients.span());
      StepContext step;
      optimizer.advance(kRate, step);
      backend->begin(step);
      optimizer.update(step, weights.span(), gradients.span());
      backend->read(weights.span(), w);
      double worst = 0;
      for (std::size_t i = 0; i < w.size(); ++i) worst = std::max(worst, std::abs(w[i] - kAfter[t][i % kWeights]));
      CHECK(worst < 2e-6);
      CHECK(w[3] == 0);
    }
    CHECK(optimizer.moments().size() == 1);
  }
}

TEST_CASE("Lion: no weight leaves 1 / decay by more than the rate") {
  constexpr Index count = 256;
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Optimizer optimizer(*backend, lion_settings(), count);
    Arena w = backend->allocate(count);
    std::vector<float> dw(count);
    float largest = 0;
    for (int t = 0; t < 4000; ++t) {
      for (std::size_t i = 0; i < dw.size(); ++i)
        dw[i] = i % 2 == 0 ? 1e-3F * static_cast<float>(i) : std::sin(static_cast<float>(i) * static_cast<float>(t));
      StepContext step;
      optimizer.advance(kRate, step);
      backend->begin(step);
      optimizer.update(step, w.span(), dw);
      for (const float value : w.span()) largest = std::max(largest, std::abs(value));
    }
    CHECK(largest <= 1 / kDecay + kRate);
    CHECK(largest > 0.99 / kDecay);  // gradients of one sign take a weight there
  }
}

TEST_CASE("Lion: a gradient that is not a number shows") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    StepContext step;
    step.lion = {0.01F, 0.9F, 0.99F, 0};
    std::vector<float> w{1, 2}, m{0, 0};
    const std::vector<float> dw{std::nanf(""), 1};
    backend->begin(step);
    backend->lion(step, w, dw, m);
    CHECK(std::isnan(w[0]));
    CHECK(w[1] == doctest::Approx(1.99));
  }
}

}  // namespace mrmf::test
