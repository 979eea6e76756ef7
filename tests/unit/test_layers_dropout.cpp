// Dropout beyond the generic layer test: what the masks look like and what they depend on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/formulas.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

constexpr std::uint64_t kLayer = 4;

struct DropoutCall {
  std::vector<std::int64_t> ids;
  std::uint64_t seed = 1, number = 1, layer = kLayer;
  float rate = 0.3F;
};

/// Dropout of ones: 0 where dropped, 1 / (1 - rate) where kept.
std::vector<float> masks(Backend& backend, const DropoutCall& call, Index features) {
  const Shape shape = flat(static_cast<Index>(call.ids.size()), features);
  const std::vector<float> x(static_cast<std::size_t>(shape.count()), 1.0F);
  std::vector<float> y(x.size(), NAN);
  const StepContext step{
      .training = true, .seed = call.seed, .updates_done = call.number, .ids = call.ids, .team_sum = nullptr};
  backend.dropout(step, {call.layer, call.rate}, {shape, x}, {shape, y});
  return y;
}

std::vector<std::int64_t> consecutive(std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i);
  return ids;
}

double share_different(const std::vector<float>& a, const std::vector<float>& b) {
  double different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different += a[i] != b[i];
  return different / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("dropout: keeps the stated share, in every feature, and the mean") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const Index features = 21;
    const auto y = masks(*backend, {.ids = consecutive(20000)}, features);
    std::vector<double> kept(static_cast<std::size_t>(features));
    double both = 0, sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK_UNARY(y[i] == 0.0F || std::abs(y[i] - 1.0 / 0.7) < 2e-5);  // the rate is a multiple of 1/65536
      kept[i % kept.size()] += y[i] != 0 ? 1.0 / 20000 : 0.0;
      if (i % kept.size() != 0) both += y[i] != 0 && y[i - 1] != 0 ? 1.0 / (20000.0 * 20) : 0.0;
      sum += y[i];
    }
    // One standard deviation: 0.0032 per feature (sqrt(0.3 * 0.7 / 20000)), 0.001 for pairs and for the mean.
    for (const double share : kept) CHECK(std::abs(share - 0.7) < 5 * 0.0032);
    CHECK(std::abs(both - 0.49) < 5 * 0.001);
    CHECK(std::abs(sum / static_cast<double>(y.size()) - 1.0) < 5 * 0.001);
  }
}

TEST_CASE("dropout: a row's mask follows its sample, whatever the order and the company") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const Index features = 45;
    const DropoutCall call{.ids = {5, 12345678901, 0, 77, 3}};
    const auto all = masks(*backend, call, features);
    for (std::size_t row = 0; row < call.ids.size(); ++row) {
      DropoutCall alone = call;
      alone.ids = {call.ids[row]};
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(row) * features;
      CHECK(masks(*backend, alone, features) == std::vector<float>(first, first + features));
    }
  }
}

TEST_CASE("dropout: seed, step and layer each give another mask") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const DropoutCall call{.ids = consecutive(100)};
    const auto y = masks(*backend, call, 100);
    CHECK(masks(*backend, call, 100) == y);
    std::vector<DropoutCall> others(4, call);
    others[0].seed = 2;
    others[1].number = 2;
    others[2].number += std::uint64_t{1} << 32;
    others[3].layer = kLayer + 1;
    // Two independent masks differ in 2 * 0.3 * 0.7 = 0.42 of 10,000 places, with a standard deviation of 0.005.
    for (const DropoutCall& other : others)
      CHECK(std::abs(share_different(masks(*backend, other, 100), y) - 0.42) < 0.025);
  }
}

TEST_CASE("dropout masks: are the documented function of its counters, bit for bit") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const DropoutCall call{.ids = {7, 4294967311, 1}, .seed = 3, .number = 9};
    const auto y = masks(*backend, call, 29);
    const StepContext step{.training = true, .seed = 3, .updates_done = 9, .ids = call.ids, .team_sum = nullptr};
    const DropoutMask mask(step, kLayer, call.rate);
    for (Index row = 0; row < 3; ++row)
      for (Index feature = 0; feature < 29; ++feature)
        CHECK((y[row * 29 + feature] != 0) == mask.keeps(mask.block(call.ids[row], feature), feature));
  }
}

TEST_CASE("dropout: rate 0 and evaluation change nothing") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Rng rng(2);
    const std::vector<std::int64_t> ids = consecutive(6);
    const auto x = uniform(rng, 6 * 33);
    std::vector<float> y(x.size(), NAN);
    StepContext step{.training = true, .seed = 1, .updates_done = 1, .ids = ids, .team_sum = nullptr};
    backend->dropout(step, {kLayer, 0.0F}, {flat(6, 33), x}, {flat(6, 33), y});
    CHECK(y == x);
    std::fill(y.begin(), y.end(), NAN);
    step.training = false;
    backend->dropout(step, {kLayer, 0.5F}, {flat(6, 33), x}, {flat(6, 33), y});
    CHECK(y == x);
  }
}

TEST_CASE("dropout masks: do not depend on the number of threads") {
  const DropoutCall call{.ids = consecutive(57)};
  CHECK(masks(*make_cpu_backend(1), call, 130) == masks(*make_cpu_backend(2), call, 130));
}

}  // namespace mrmf::test
