// `mrmf bench gradients` must be able to fail: what it says of gradients that are wrong in known ways.
#include <doctest/doctest.h>

#include <cmath>

#include "src/bench/bench.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/device_training.hpp"

namespace mrmf::test {
namespace {

struct Case {
  std::unique_ptr<Backend> backend = make_reference_backend();
  DeviceTraining training{*backend, fusable_model(41, 3)};
  std::vector<float> right;

  Case() {
    training.train(8, 1, 0);
    right = training.gradients();
  }
  const Network& network() { return training.model_state.model.network(); }
  std::vector<GradientError> errors(const std::vector<float>& got) { return gradient_errors(network(), got, right); }
};

}  // namespace

TEST_CASE("bench gradients: each parameter tensor is measured, and only the wrong one is off") {
  Case at;
  const Entry& conv = at.network().entry(0);
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
  Case at;
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

// A convolution's bias before a batch norm has no gradient: what is there is rounding, and as large as itself.
TEST_CASE("bench gradients: rounding where nothing is expected is measured by its layer") {
  Case at;
  std::vector<float> got = at.right;
  bool met = false;
  const std::vector<GradientError> before = at.errors(got);
  std::size_t number = 0;
  for (const Entry& entry : at.network().entries()) {
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
