// Backend functions that no layer calls: memory and losses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {

TEST_CASE("operations: memory is aligned, zeroed, swapped and filled") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    for (const Index count : {0, 1, 17, 100003}) {  // 100003: long enough to be shared between threads
      Arena a = backend->allocate(count), b = backend->allocate(count);
      CHECK(a.size() == static_cast<std::size_t>(count));
      CHECK(reinterpret_cast<std::uintptr_t>(a.span().data()) % 64 == 0);
      const auto holds = [](ConstSpan span, float value) {
        return static_cast<std::size_t>(std::count(span.begin(), span.end(), value)) == span.size();
      };
      CHECK(holds(a.span(), 0.0F));
      Rng rng(1);
      const Values x = uniform(rng, a.size());
      std::ranges::copy(x, a.span().begin());
      backend->fill(b.span(), -2.5F);
      CHECK(holds(b.span(), -2.5F));
      backend->swap(a.span(), b.span());
      CHECK(holds(a.span(), -2.5F));
      CHECK(Values(b.span().begin(), b.span().end()) == x);
    }
  }
}

TEST_CASE("operations: losses worked out by hand") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const Values y{1, 2, 3, 4}, target{0, 0, 3, 2};
    Values dy(4, NAN);
    // Per-sample mean squares 2.5 and 2, mean magnitudes 1.5 and 1.
    CHECK(loss_of(*backend, LossKind::mse, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, dy) == doctest::Approx(4.5));
    CHECK(dy == Values{0.5F, 1, 0, 1});
    CHECK(loss_of(*backend, LossKind::mae, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, dy) == doctest::Approx(2.5));
    CHECK(dy == Values{0.25F, 0.25F, 0, 0.25F});
    CHECK(loss_of(*backend, LossKind::mse, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, {}) == doctest::Approx(4.5));
  }
}

TEST_CASE("operations: a loss's gradient is its slope") {
  for (const auto& backend : backends())
    for (const LossKind kind : {LossKind::mse, LossKind::mae}) {
      INFO(backend->name());
      Rng rng(4);
      const Shape shape = flat(57, 19);
      const auto count = static_cast<std::size_t>(shape.count());
      const Values y = uniform(rng, count), target = uniform(rng, count), direction = uniform(rng, count);
      const float weight = 1.0F / 57;
      Values dy(count, NAN), before(count), after(count);
      loss_of(*backend, kind, {shape, y}, {shape, target}, weight, dy);
      // A step of 2^-13 leaves the sign of nearly every error as it is; the sum is in double, so rounding is not felt.
      const double step = std::ldexp(1.0, -13);
      double predicted = 0, terms = 0;
      for (std::size_t i = 0; i < count; ++i) {
        before[i] = static_cast<float>(y[i] - step * direction[i]);
        after[i] = static_cast<float>(y[i] + step * direction[i]);
        const double term = dy[i] * (double{after[i]} - before[i]);
        predicted += term;
        terms += term * term;
      }
      const double measured = loss_of(*backend, kind, {shape, after}, {shape, target}, weight, {}) -
                              loss_of(*backend, kind, {shape, before}, {shape, target}, weight, {});
      CHECK(std::abs(weight * measured - predicted) < 1e-2 * std::sqrt(terms));
    }
}

TEST_CASE("operations: losses pass NaN on, to the gradient too") {
  const Values y{1, NAN, 3, 4}, target{0, 0, 3, 2};
  for (const auto& backend : backends())
    for (const LossKind kind : {LossKind::mse, LossKind::mae}) {
      INFO(backend->name());
      Values dy(4, 7);
      CHECK(std::isnan(loss_of(*backend, kind, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, dy)));
      CHECK(std::isnan(dy[1]));
      CHECK(dy[0] == (kind == LossKind::mse ? 0.5F : 0.25F));
      CHECK(dy[2] == 0);
    }
}

TEST_CASE("operations: losses of a large batch agree with the reference") {
  const auto reference = make_reference_backend();
  for (const auto& backend : backends())
    for (const LossKind kind : {LossKind::mse, LossKind::mae}) {
      INFO(backend->name());
      Rng rng(6);
      const Shape shape = flat(513, 19);
      const auto count = static_cast<std::size_t>(shape.count());
      const Values y = uniform(rng, count), target = uniform(rng, count);
      Values dy(count, NAN), expected(count, NAN);
      const double loss = loss_of(*reference, kind, {shape, y}, {shape, target}, 0.25F, expected);
      // The sum is a double on every backend; float terms would show as 1e-7.
      CHECK(loss_of(*backend, kind, {shape, y}, {shape, target}, 0.25F, dy) == doctest::Approx(loss).epsilon(1e-6));
      CHECK(relative_distance(dy, expected) < 1e-6);
    }
}

}  // namespace mrmf::test
