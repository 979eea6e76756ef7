#include "src/simulators/cosmology/linear_power.hpp"

#include <cmath>
#include <numbers>

#include "src/simulators/cosmology/integrate.hpp"

namespace mrmf::cosmology {
namespace {

double top_hat(double x) { return x < 1e-3 ? 1 - x * x / 10 : 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x); }

}  // namespace

LinearPower::LinearPower(const Cosmology& cosmology) : transfer_(cosmology), slope_(cosmology.n_s) {
  const double ratio = cosmology.sigma_8 / sigma(8);
  amplitude_ = ratio * ratio;
}

double LinearPower::operator()(double k) const {
  const double t = transfer_(k);
  return amplitude_ * std::pow(k, slope_) * t * t;
}

double LinearPower::sigma(double radius) const {
  // In ln k; beyond the ends the integrand is below 1e-7 of its peak for radii of a few Mpc/h.
  const double variance = integrate(std::log(1e-5), std::log(50 / radius), 4000, [&](double log_k) {
    const double k = std::exp(log_k), w = top_hat(k * radius);
    return k * k * k * (*this)(k)*w * w;
  });
  return std::sqrt(variance / (2 * std::numbers::pi * std::numbers::pi));
}

}  // namespace mrmf::cosmology
