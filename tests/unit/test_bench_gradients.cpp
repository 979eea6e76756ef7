// `mrmf bench gradients` must be able to fail: what it says of gradients that are wrong in known ways.
#include <doctest/doctest.h>

#include <cmath>

#include "src/bench/bench.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/device_training.hpp"

namespace mrmf::test {
namespace {

struct GradientCase {
  std::unique_ptr<Backend> backend = make_reference_backend();
  DeviceTraining training{*backend, fusable_model(41, 3)};
  std::vector<float> right;

  GradientCase() {
    training.train(8, 1, 0);
    right = training.gradients();
  }
  const Network& network() { return training.model_state.model.network(); }
  std::vector<GradientError> errors(const std::vector<float>& got) { return gradient_errors(network(), got, right); }
};

}  // namespace

TEST_CASE("bench gradients: each parameter tensor is measured, and only the wrong one is off") {
  GradientCase at;
  const LayerEntry& conv = at.network().entry(0);
  std::vector<float> got = at.right;
  for (const GradientError& error : at.errors(got)) {
    CHECK(error.distance == 0);
    CHECK(error.along == doctest::Approx(1));
  }
  const auto first = static_cast<std::size_t>(conv.params.first);
  const auto weights = static_cast<std::size_t>(conv.footprint.params[0].count());
  for (std::size_t i = first; i < first + weights; ++i) got[i] *= 0.9F;
  const std::vector<GradientError> errors = at.errors(got);
  CHECK(errors[0].name == conv.name + " weight");
  CHECK(errors[0].distance == doctest::Approx(0.1).epsilon(1e-4));
  CHECK(errors[0].along == doctest::Approx(0.9).epsilon(1e-4));
  for (std::size_t i = 1; i < errors.size(); ++i) CHECK(errors[i].distance == 0);
}

TEST_CASE("bench gradients: zeros, a sign and what is not a number are off by all there is") {
  GradientCase at;
  const std::vector<float> zeros(at.right.size(), 0.0F);
  for (const GradientError& error : at.errors(zeros))
    if (error.counts) {
      CHECK(error.distance == doctest::Approx(1));
      CHECK(error.along == 0);
    }
  std::vector<float> got = at.right;
  for (float& value : got) value = -value;
  CHECK(at.errors(got)[0].distance == doctest::Approx(2));
  got = at.right;
  got[0] = NAN;
  CHECK(!(at.errors(got)[0].distance <= 1e30));
}

TEST_CASE("bench gradients: a small tensor is compared over all steps, a large one in each") {
  GradientCase at;
  std::size_t small = 0, large = 0;
  const std::vector<GradientError> right = at.errors(at.right);
  for (std::size_t i = 0; i < right.size(); ++i) (is_small(right[i].values) && right[i].counts ? small : large) = i;
  REQUIRE(is_small(right[small].values));
  REQUIRE(!is_small(right[large].values));
  // In the second step all that is expected is a hundredth, and what is off is as much as before.
  std::vector<GradientError> first = at.errors(at.right), second = first;
  for (GradientError& error : first) error.squares.difference = 0.01 * error.squares.expected;
  for (std::size_t i = 0; i < second.size(); ++i) {
    second[i].squares = first[i].squares;
    second[i].squares.expected *= 1e-4, second[i].squares.product *= 1e-4;
    second[i].distance = 10;
  }
  std::vector<GradientError> worst;
  keep_worst(worst, first);
  keep_worst(worst, second);
  CHECK(worst[small].distance == doctest::Approx(std::sqrt(0.02 / 1.0001)));
  CHECK(worst[small].along == doctest::Approx(1));
  CHECK(worst[large].distance == 10);
  // What is wrong in all steps stays wrong, and what is not a number in one.
  std::vector<float> half = at.right;
  for (float& value : half) value *= 0.5F;
  worst = at.errors(half);
  keep_worst(worst, at.errors(half));
  CHECK(worst[small].along == doctest::Approx(0.5));
  CHECK(worst[small].distance == doctest::Approx(0.5));
  half.assign(half.size(), std::nanf(""));
  keep_worst(worst, at.errors(half));
  CHECK_FALSE(worst[small].distance <= 1e30);
}

// A convolution's bias before a batch norm has no gradient: what is there is rounding, and as large as itself.
TEST_CASE("bench gradients: rounding where nothing is expected is measured by its layer") {
  GradientCase at;
  std::vector<float> got = at.right;
  bool met = false;
  const std::vector<GradientError> before = at.errors(got);
  std::size_t number = 0;
  for (const LayerEntry& entry : at.network().entries()) {
    auto first = static_cast<std::size_t>(entry.params.first);
    for (const NamedTensor& part : entry.footprint.params) {
      const GradientError& error = before[number++];
      if (entry.kind == LayerKind::conv && part.name == "bias" && !error.counts) {
        met = true;
        for (Index i = 0; i < part.count(); ++i) got[first + static_cast<std::size_t>(i)] *= -1;
      }
      first += static_cast<std::size_t>(part.count());
    }
  }
  REQUIRE(met);
  for (const GradientError& error : at.errors(got)) {
    CAPTURE(error.name);
    CHECK(error.distance < 1e-3);
    CHECK(error.along == doctest::Approx(1));
  }
}

}  // namespace mrmf::test
