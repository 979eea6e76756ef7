// Simpson's rule.
#pragma once

namespace mrmf::cosmology {

/// The integral of f over [from, to] with `intervals` (even) pieces: for smooth functions.
template <typename Function>
double integrate(double from, double to, int intervals, Function&& f) {
  const double step = (to - from) / intervals;
  double sum = f(from) + f(to);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * f(from + i * step);
  return sum * step / 3;
}

}  // namespace mrmf::cosmology
