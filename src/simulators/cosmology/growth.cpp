#include "src/simulators/cosmology/growth.hpp"

#include <cmath>

#include "src/simulators/cosmology/integrate.hpp"

namespace mrmf::cosmology {

Growth::Growth(double omega_m) : omega_m_(omega_m), scale_(1) { scale_ = 1 / unscaled(1); }

double Growth::expansion(double a) const { return std::sqrt(omega_m_ / (a * a * a) + 1 - omega_m_); }

// Heath's integral E(a) \int da' / (a' E(a'))^3. With a' = t^2 its integrand is smooth at 0.
double Growth::unscaled(double a) const {
  if (a <= 0) return 0;
  const double integral = integrate(0, std::sqrt(a), 256, [&](double t) {
    const double x = t * t;
    return 2 * t * std::pow(x / (omega_m_ + (1 - omega_m_) * x * x * x), 1.5);
  });
  return expansion(a) * integral;
}

double Growth::linear(double a) const { return scale_ * unscaled(a); }

double Growth::second(double a) const {
  const double d = linear(a);
  return d * d * std::pow(omega_m_ + (1 - omega_m_) * a * a * a, 1.0 / 143);
}

}  // namespace mrmf::cosmology
