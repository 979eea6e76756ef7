// Backend functions that no layer calls: memory, losses, averaging.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/unit/backends.hpp"

namespace mrmf::test {
namespace {

using Values = std::vector<float>;

/// y of averaging x by `factor`, by the definition: every element of x goes to the element of y it lies in.
std::vector<double> averaged(const Shape& in, const Shape& out, const Extent& factor, const Values& x) {
  std::vector<double> y(static_cast<std::size_t>(out.count()));
  const Extent& size = in.spatial;
  for (Index i = 0; i < in.count(); ++i) {
    const Index c = i % in.channels, k = i / in.channels % size[2], j = i / in.channels / size[2] % size[1],
                a = i / in.channels / size[2] / size[1] % size[0], n = i / in.per_sample();
    const Index row = (n * out.spatial[0] + a / factor[0]) * out.spatial[1] + j / factor[1];
    y[(row * out.spatial[2] + k / factor[2]) * in.channels + c] += x[i] / static_cast<double>(product(factor));
  }
  return y;
}

}  // namespace

TEST_CASE("operations: memory is aligned, zeroed, copied, swapped and filled") {
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
      backend->copy(x, a.span());
      CHECK(Values(a.span().begin(), a.span().end()) == x);
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
    CHECK(backend->loss(LossKind::mse, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, dy) == doctest::Approx(4.5));
    CHECK(dy == Values{0.5F, 1, 0, 1});
    CHECK(backend->loss(LossKind::mae, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, dy) == doctest::Approx(2.5));
    CHECK(dy == Values{0.25F, 0.25F, 0, 0.25F});
    CHECK(backend->loss(LossKind::mse, {flat(2, 2), y}, {flat(2, 2), target}, 0.5F, {}) == doctest::Approx(4.5));
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
      backend->loss(kind, {shape, y}, {shape, target}, weight, dy);
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
      const double measured = backend->loss(kind, {shape, after}, {shape, target}, weight, {}) -
                              backend->loss(kind, {shape, before}, {shape, target}, weight, {});
      CHECK(std::abs(weight * measured - predicted) < 1e-2 * std::sqrt(terms));
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
      const double loss = reference->loss(kind, {shape, y}, {shape, target}, 0.25F, expected);
      // The sum is a double on every backend; float terms would show as 1e-7.
      CHECK(backend->loss(kind, {shape, y}, {shape, target}, 0.25F, dy) == doctest::Approx(loss).epsilon(1e-6));
      CHECK(relative_distance(dy, expected) < 1e-6);
    }
}

TEST_CASE("operations: averaging by every kind of factor") {
  struct Averaging {
    Shape in;
    Extent factor;
  };
  const Averaging cases[] = {
      {line(3, 12, 3), {1, 1, 4}},          {line(5, 10, 1), {1, 1, 5}},          {line(2, 7, 2), {1, 1, 1}},
      {line(2, 9, 30), {1, 1, 9}},          {image(3, 6, 8, 4), {1, 3, 2}},       {image(2, 4, 6, 1), {1, 1, 2}},
      {volume(2, {4, 6, 8}, 4), {2, 2, 2}}, {volume(2, {4, 6, 6}, 3), {4, 2, 3}}, {volume(1, {8, 8, 16}, 1), {1, 4, 2}},
  };
  for (const auto& backend : backends())
    for (const Averaging& c : cases) {
      INFO(backend->name(), " ", to_string(c.in));
      Shape out = c.in;
      for (std::size_t a = 0; a < 3; ++a) out.spatial[a] /= c.factor[a];
      Rng rng(8);
      const Values x = uniform(rng, static_cast<std::size_t>(c.in.count()));
      Values y(static_cast<std::size_t>(out.count()), NAN);
      backend->average({c.in, x}, c.factor, {out, y});
      const auto expected = averaged(c.in, out, c.factor, x);
      // At most 24 terms of size 1: a few roundings of 6e-8.
      for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::abs(y[i] - expected[i]) < 5e-7);
    }
}

}  // namespace mrmf::test
