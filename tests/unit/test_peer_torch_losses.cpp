// Losses compute what PyTorch computes: value and gradient, from numbers that tests/peers/torch/golden_losses.py made.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/peer_torch.hpp"

namespace mrmf::test {
namespace {

LossKind kind_of(const std::string& word) {
  using enum LossKind;
  const std::vector<std::pair<std::string, LossKind>> words{{"mse", mse},
                                                            {"mae", mae},
                                                            {"huber", huber},
                                                            {"cross_entropy", cross_entropy},
                                                            {"binary_cross_entropy", binary_cross_entropy},
                                                            {"dice", dice}};
  return std::ranges::find(words, word, &std::pair<std::string, LossKind>::first)->second;
}

LossSettings loss_settings(const Json& with) {
  LossSettings settings;
  settings.weights = {};
  for (const Json& term : with.at("loss")) {
    settings.weights[static_cast<std::size_t>(kind_of(term.at("kind")))] = term.value("weight", 1.0F);
    settings.delta = term.value("delta", settings.delta);
    settings.smooth = term.value("smooth", settings.smooth);
    settings.gamma = term.value("gamma", settings.gamma);
  }
  settings.class_weights = with.value("class_weights", std::vector<float>{});
  return settings;
}

}  // namespace

TEST_CASE("losses agree with PyTorch") {
  const Json golden = read_golden("golden_losses.json");
  REQUIRE(golden.at("cases").size() == 10);
  for (const auto& backend : backends())
    for (const Json& with : golden.at("cases")) {
      const auto name = with.at("name").get<std::string>();
      INFO(backend->name(), ", ", name);
      const auto sizes = with.at("shape").get<std::vector<Index>>();
      const auto y = with.at("y").get<std::vector<float>>(), target = with.at("target").get<std::vector<float>>();
      const auto expected = with.at("gradient").get<std::vector<float>>();
      const Shape shape = line(sizes[0], sizes[1], sizes[2]);
      const Shape labels = line(sizes[0], sizes[1], std::ssize(target) / (sizes[0] * sizes[1]));
      std::vector<float> dy(y.size(), NAN);
      const double sum =
          loss_of(*backend, loss_settings(with), {shape, y}, {labels, target}, 1.0F / static_cast<float>(sizes[0]), dy);
      CHECK(sum / static_cast<double>(sizes[0]) == doctest::Approx(with.at("value").get<double>()).epsilon(1e-6));
      CHECK(relative_distance(dy, expected) < 1e-6);
    }
}

}  // namespace mrmf::test
