#include "tests/unit/support/check_slope.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

/// The longer the step, the less rounding weighs: y carries 6e-8, its difference 6e-8 / step.
/// A layer that is linear in the argument allows any step. At a kink see drop_kinks(). A smooth one has an error of
/// step^2 / 6 of its third derivative. A smooth one with kinks takes the short step, and so has second differences of
/// step^2 = 4e-6 times its curvature, well below those of a kink (step * change of slope).
struct Difference {
  double step, tolerance;
  double kink = 0;  // second differences above this are one
};
Difference difference_for(Curvature curvature) {
  switch (curvature) {
    case Curvature::linear: return {0.5, 2e-5};
    case Curvature::kinked: return {0.002, 4e-4, 2e-6};
    case Curvature::smooth: return {0.01, 6e-4};
    case Curvature::smooth_kinked: return {0.001, 1e-3, 6e-6};
  }
  return {};
}

struct Neighbours {
  std::vector<float> before, here, after;
};

/// Where the one-sided slopes differ, a maximum or a sign changed hands inside the step: such an output gets weight 0.
void drop_kinks(const Neighbours& y, double kink, Span dy) {
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < dy.size(); ++i)
    if (std::abs(double{y.before[i]} + y.after[i] - 2.0 * y.here[i]) > kink) {
      dy[i] = 0.0F;
      ++dropped;
    }
  CHECK(dropped < dy.size() / 2);
}

/// One direction for one argument (x or the parameters).
void check_direction(const SlopeCheck& check, LayerMemory& b, Guarded& argument, const Guarded& gradient, Rng& rng) {
  const Difference difference = difference_for(check.curvature);
  const auto start = argument.values(), dy = b.dy.values();
  const auto direction = uniform(rng, start.size());
  const auto output_at = [&](double distance) {
    for (std::size_t i = 0; i < start.size(); ++i)
      argument.span()[i] = static_cast<float>(start[i] + distance * direction[i]);
    b.forward(check.layer, check.step);
    return b.y.values();
  };
  Neighbours y;
  y.before = output_at(-difference.step);
  const auto argument_before = argument.values();
  y.after = output_at(difference.step);
  const auto argument_after = argument.values();
  y.here = output_at(0.0);
  if (difference.kink > 0) drop_kinks(y, difference.kink, b.dy.span());
  b.backward(check.layer, check.step);

  // Both sides are a difference of the objective dot(dy, y) over the distance really moved after rounding.
  double measured = 0, predicted = 0, terms = 0;
  for (std::size_t i = 0; i < dy.size(); ++i) measured += double{b.dy.span()[i]} * (double{y.after[i]} - y.before[i]);
  for (std::size_t i = 0; i < start.size(); ++i) {
    const double term = gradient.span()[i] * (double{argument_after[i]} - argument_before[i]);
    predicted += term;
    terms += term * term;
  }
  b.dy.set(dy);
  // The natural size of a sum of random terms; the sum itself may be small by chance.
  CHECK(terms > 0);
  CHECK(std::abs(measured - predicted) < difference.tolerance * std::sqrt(terms));
}

}  // namespace

Curvature curvature_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::max_pool:
    case LayerKind::relu:
    case LayerKind::leaky_relu: return Curvature::kinked;
    case LayerKind::batch_norm:
    case LayerKind::group_norm:
    case LayerKind::layer_norm:
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::softplus:
    case LayerKind::sigmoid:
    case LayerKind::l2_pool:
    case LayerKind::local_contrast_norm:
    case LayerKind::tanh: return Curvature::smooth;
    default: return Curvature::linear;
  }
}

void check_slope(const SlopeCheck& check, LayerMemory& b) {
  Rng rng(99);
  for (int direction = 0; direction < 3; ++direction) {
    INFO("direction ", direction);
    {
      INFO("of x");
      check_direction(check, b, b.x, b.dx, rng);
    }
    if (b.params.span().empty()) continue;
    INFO("of the parameters");
    check_direction(check, b, b.params, b.grads, rng);
  }
}

}  // namespace mrmf::test
