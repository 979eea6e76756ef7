// Losses of every task: worked out by hand, against their own slope, and backend against backend.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

/// A loss with outputs and targets that suit it.
struct LossCase {
  std::string name;
  LossSettings settings;
  Shape output;
  Index target_channels = 1;
};

LossSettings sum_of(std::initializer_list<std::pair<LossKind, float>> kinds, Values class_weights = {}) {
  LossSettings settings;
  settings.weights = {};
  for (const auto& [kind, weight] : kinds) settings.weights[static_cast<std::size_t>(kind)] = weight;
  settings.class_weights = std::move(class_weights);
  return settings;
}

// 4112 and 4097 positions: more than one block of the fast backend's; 5 and 9 classes: more than one vector of a GPU's.
std::vector<LossCase> loss_cases() {
  using enum LossKind;
  LossSettings errors = sum_of({{huber, 1}, {mae, 0.25F}});
  errors.delta = 0.3F;
  LossSettings smooth = sum_of({{cross_entropy, 0.7F}, {dice, 2}}, {1, 0.25F, 3, 0});
  smooth.smooth = 0.1F;
  const auto focal = [](LossSettings settings, float gamma) {
    settings.gamma = gamma;
    return settings;
  };
  return {
      {"huber and mae", errors, flat(57, 19), 19},
      {"mse of a field", sum_of({{mse, 0.5F}}), volume(3, {16, 16, 17}, 2), 2},
      {"classes", sum_of({{cross_entropy, 1}}), flat(33, 5), 1},
      {"weighted classes", sum_of({{cross_entropy, 1}}, {1, 2, 0.5F, 0, 3, 1, 1, 1, 4}), flat(21, 9), 1},
      {"classes of positions", sum_of({{cross_entropy, 1}}), volume(3, {16, 16, 17}, 4), 1},
      {"classes and dice", smooth, image(2, 64, 65, 4), 1},
      {"shares of classes", smooth, image(3, 8, 9, 4), 4},
      {"dice", sum_of({{dice, 1}}), line(4, 37, 3), 1},
      {"focal classes", focal(sum_of({{cross_entropy, 1}}, {1, 2, 0.5F, 0, 3}), 2), flat(33, 5), 1},
      {"focal shares of classes, and dice", focal(smooth, 1.5F), image(3, 8, 9, 4), 4},
      {"focal yes or no", focal(sum_of({{binary_cross_entropy, 1}, {dice, 0.5F}}, {1, 2, 3}), 2), line(3, 41, 3), 3},
      {"yes or no", sum_of({{binary_cross_entropy, 1}}, {1, 2, 3}), flat(21, 3), 3},
      {"yes or no of positions, and dice", sum_of({{binary_cross_entropy, 1}, {dice, 0.5F}}), line(3, 4097, 2), 2},
  };
}

/// Outputs, and targets of which every seventh is ignored where a task can.
struct LossNumbers {
  Values y, target;
  Shape target_shape;

  explicit LossNumbers(const LossCase& with) : target_shape(with.output) {
    Rng rng(12);
    y = uniform(rng, static_cast<std::size_t>(with.output.count()), -3, 3);
    target_shape.channels = with.target_channels;
    target = uniform(rng, static_cast<std::size_t>(target_shape.count()), 0, 1);
    if (with.settings.task() == Task::regression) return;
    if (with.settings.task() == Task::classes && with.target_channels == 1)
      for (float& t : target) t = std::floor(t * static_cast<float>(with.output.channels));
    if (with.settings.task() == Task::classes && with.target_channels > 1) {
      make_shares(with.target_channels);
      return;
    }
    for (std::size_t i = 0; i < target.size(); i += 7) target[i] = -1;
  }

 private:
  // Their sum is below 1 where some of the positions were ignored, and 0 where all were.
  void make_shares(Index classes) {
    for (std::size_t i = 0; i < target.size(); i += static_cast<std::size_t>(classes)) {
      float sum = 0.01F;
      for (std::size_t c = 0; c < static_cast<std::size_t>(classes); ++c) sum += target[i + c];
      for (std::size_t c = 0; c < static_cast<std::size_t>(classes); ++c)
        target[i + c] = i % 5 == 0 ? 0 : target[i + c] * (i % 3 == 0 ? 0.5F : 1.0F) / sum;
    }
  }
};

double value_of(Backend& backend, const LossCase& with, const LossNumbers& numbers, const Values& y, float weight,
                Span dy) {
  return loss_of(backend, with.settings, {with.output, y}, {numbers.target_shape, numbers.target}, weight, dy);
}

}  // namespace

TEST_CASE("losses: cross-entropy, by hand: ignored rows, weights, and numbers that would overflow") {
  const Values y{0, std::log(3.0F), 0, 1000, 5, 7};  // probabilities 1/4, 3/4; 0, 1; ignored
  const Values target{1, 0, -1};
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Values dy(6, NAN);
    const double loss = loss_of(*backend, LossKind::cross_entropy, {flat(3, 2), y}, {flat(3, 1), target}, 0.5F, dy);
    CHECK(loss == doctest::Approx(std::log(4.0 / 3) + 1000));
    const Values expected{0.125F, -0.125F, -0.5F, 0.5F, 0, 0};
    for (std::size_t i = 0; i < dy.size(); ++i) CHECK(dy[i] == doctest::Approx(expected[i]));
    const LossSettings weighted = sum_of({{LossKind::cross_entropy, 2}}, {0.5F, 0.25F});
    CHECK(loss_of(*backend, weighted, {flat(3, 2), y}, {flat(3, 1), target}, 1, dy) ==
          doctest::Approx(2 * (0.25 * std::log(4.0 / 3) + 500)));
    CHECK(dy[0] == doctest::Approx(0.125F));
  }
}

TEST_CASE("losses: a sample's loss is the mean over its positions with a label") {
  const Values y{0, 0, 0, std::log(3.0F), 9, 0, 0, 0};  // two samples of two positions
  const Values target{0, 1, -1, 1};
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const double loss = loss_of(*backend, LossKind::cross_entropy, {line(2, 2, 2), y}, {line(2, 2, 1), target}, 1, {});
    CHECK(loss == doctest::Approx((std::log(2.0) + std::log(4.0 / 3)) / 2 + std::log(2.0)));
  }
}

TEST_CASE("losses: yes or no, by hand, and with logits that would overflow") {
  const Values y{0, 200, -200, 3}, target{1, 1, 1, -1};
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Values dy(4, NAN);
    const double loss = loss_of(*backend, LossKind::binary_cross_entropy, {flat(1, 4), y}, {flat(1, 4), target}, 1, dy);
    CHECK(loss == doctest::Approx((std::log(2.0) + 200) / 3));
    CHECK(dy[0] == doctest::Approx(-0.5 / 3));
    CHECK(dy[1] == doctest::Approx(0));
    CHECK(dy[2] == doctest::Approx(-1.0 / 3));
    CHECK(dy[3] == 0);
  }
}

TEST_CASE("losses: dice, by hand") {
  // Probabilities of class 1: 1/2, 3/4, 3/4; labels 1, 1, 0. With smooth = 1 the overlaps are
  // (2 * (1/2 + 3/4) + 1) / (2 + 2 + 1) = 0.7 and, of class 0, (2 * 1/4 + 1) / (1 + 1 + 1) = 0.5.
  const float high = std::log(3.0F);
  const Values y{0, 0, 0, high, 0, high}, target{1, 1, 0};
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const auto dice = [&](const LossSettings& settings) {
      return loss_of(*backend, settings, {line(1, 3, 2), y}, {line(1, 3, 1), target}, 1, {});
    };
    CHECK(dice(LossSettings::single(LossKind::dice)) == doctest::Approx(1 - (0.7 + 0.5) / 2));
    CHECK(dice(sum_of({{LossKind::dice, 2}}, {1, 3})) == doctest::Approx(2 * (1 - (0.5 + 3 * 0.7) / 4)));
  }
}

TEST_CASE("losses: huber, by hand") {
  LossSettings huber = LossSettings::single(LossKind::huber);
  huber.delta = 2;
  const Values y{1, 5, -3, 0}, target{0, 0, 0, 0};
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Values dy(4, NAN);
    CHECK(loss_of(*backend, huber, {flat(1, 4), y}, {flat(1, 4), target}, 1, dy) ==
          doctest::Approx((0.5 + 2 * (5 - 1) + 2 * (3 - 1)) / 4));
    CHECK(dy == Values{0.25F, 0.5F, -0.5F, 0});
  }
}

TEST_CASE("losses: the coarse loss of shares is the fine loss of the coarse outputs, repeated") {
  using enum LossKind;
  const LossSettings settings = sum_of({{cross_entropy, 1}}, {1, 3, 0.5F});
  const Values coarse_y{1, -2, 0.5F, 0.25F, 1, -1};  // two positions
  const Values fine_target{0, 2, -1, 1, 1, 1};       // three neighbours each
  const Values shares{1.0F / 3, 0, 1.0F / 3, 0, 1, 0};
  Values fine_y;
  for (const std::size_t position : {0U, 1U})
    for (int copy = 0; copy < 3; ++copy)
      fine_y.insert(fine_y.end(), coarse_y.begin() + 3 * static_cast<int>(position),
                    coarse_y.begin() + 3 * static_cast<int>(position) + 3);
  for (const auto& backend : backends()) {
    INFO(backend->name());
    CHECK(loss_of(*backend, settings, {line(1, 2, 3), coarse_y}, {line(1, 2, 3), shares}, 1, {}) ==
          doctest::Approx(loss_of(*backend, settings, {line(1, 6, 3), fine_y}, {line(1, 6, 1), fine_target}, 1, {})));
  }
}

TEST_CASE("losses: the gradient is the slope") {
  for (const auto& backend : backends())
    for (const LossCase& with : loss_cases()) {
      INFO(backend->name(), ", ", with.name);
      const LossNumbers numbers(with);
      Rng rng(13);
      const Values direction = uniform(rng, numbers.y.size());
      Values dy(numbers.y.size(), NAN), before(numbers.y.size()), after(numbers.y.size());
      const float weight = 0.25F;
      value_of(*backend, with, numbers, numbers.y, weight, dy);
      const double step = with.settings.task() == Task::regression ? std::ldexp(1.0, -13) : std::ldexp(1.0, -7);
      double predicted = 0, terms = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) {
        before[i] = static_cast<float>(numbers.y[i] - step * direction[i]);
        after[i] = static_cast<float>(numbers.y[i] + step * direction[i]);
        const double term = dy[i] * (double{after[i]} - before[i]);
        predicted += term;
        terms += term * term;
      }
      const double measured =
          value_of(*backend, with, numbers, after, weight, {}) - value_of(*backend, with, numbers, before, weight, {});
      // The sum is a float: at 4,000 positions its rounding is felt.
      const double rounding = 4e-7 * std::abs(value_of(*backend, with, numbers, numbers.y, weight, {}));
      CHECK(terms > 0);
      CHECK(std::abs(weight * measured - predicted) < 1e-2 * std::sqrt(terms) + weight * rounding);
    }
}

TEST_CASE("losses: backends agree with the reference") {
  const auto reference = make_reference_backend();
  for (const auto& backend : backends())
    for (const LossCase& with : loss_cases()) {
      INFO(backend->name(), ", ", with.name);
      const LossNumbers numbers(with);
      Values dy(numbers.y.size(), NAN), expected(numbers.y.size(), NAN);
      const double loss = value_of(*reference, with, numbers, numbers.y, 0.25F, expected);
      CHECK(value_of(*backend, with, numbers, numbers.y, 0.25F, dy) == doctest::Approx(loss).epsilon(1e-5));
      CHECK(relative_distance(dy, expected) < 2e-6);
      CHECK(value_of(*backend, with, numbers, numbers.y, 0.25F, {}) == doctest::Approx(loss).epsilon(1e-5));
    }
}

TEST_CASE("losses: the fast backend's bits do not depend on the number of threads") {
  for (const LossCase& with : loss_cases()) {
    INFO(with.name);
    const LossNumbers numbers(with);
    const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
    Values dy(numbers.y.size()), again(numbers.y.size());
    CHECK(value_of(*one, with, numbers, numbers.y, 0.25F, dy) ==
          value_of(*three, with, numbers, numbers.y, 0.25F, again));
    CHECK(dy == again);
  }
}

TEST_CASE("losses: NaN shows in the loss and in its sample's gradient alone") {
  for (const auto& backend : backends())
    for (const LossCase& with : loss_cases()) {
      INFO(backend->name(), ", ", with.name);
      LossNumbers numbers(with);
      const auto outputs = static_cast<std::size_t>(with.output.per_sample());
      const std::size_t at = outputs + 1;  // in the second sample, where no label is ignored
      const std::size_t label =
          at / static_cast<std::size_t>(with.output.channels) * static_cast<std::size_t>(with.target_channels);
      for (std::size_t c = 0; c < static_cast<std::size_t>(with.target_channels); ++c)
        numbers.target[label + c] = with.target_channels > 1 ? 0.25F : 0;
      numbers.y[at] = NAN;
      Values dy(numbers.y.size(), 7);
      CHECK(std::isnan(value_of(*backend, with, numbers, numbers.y, 1, dy)));
      CHECK(std::isnan(dy[at]));
      CHECK(std::ranges::none_of(Span(dy).first(outputs), [](float x) { return std::isnan(x); }));
    }
}

TEST_CASE("losses: a sample without any label has no loss and no gradient") {
  using enum LossKind;
  for (const auto& backend : backends())
    for (const LossSettings& settings : {sum_of({{cross_entropy, 1}, {dice, 1}}), sum_of({{cross_entropy, 1}})}) {
      INFO(backend->name());
      const Values y{1, 2, 3, 4}, target{-1, -1};
      Values dy(4, NAN);
      CHECK(loss_of(*backend, settings, {line(1, 2, 2), y}, {line(1, 2, 1), target}, 1, dy) == 0);
      CHECK(dy == Values(4, 0.0F));
    }
}

}  // namespace mrmf::test
