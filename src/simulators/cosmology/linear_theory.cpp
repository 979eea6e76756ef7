#include "src/simulators/cosmology/transfer.hpp"

#include <cmath>
#include <numbers>

namespace mrmf::cosmology {
namespace {

constexpr double kTemperature = 2.7255 / 2.7;  // of the microwave background, in units of 2.7 K

double square(double x) { return x * x; }

// (19)-(20), without the wavenumber's scaling.
double pressureless(double q, double alpha, double beta) {
  const double c = 14.2 / alpha + 386 / (1 + 69.9 * std::pow(q, 1.08));
  const double l = std::log(std::numbers::e + 1.8 * beta * q);
  return l / (l + c * q * q);
}

// (15)
double g(double y) {
  const double root = std::sqrt(1 + y);
  return y * (-6 * root + (2 + 3 * y) * std::log((root + 1) / (root - 1)));
}

// (4)
double drag_redshift(double m, double b) {
  const double b1 = 0.313 * std::pow(m, -0.419) * (1 + 0.607 * std::pow(m, 0.674));
  const double b2 = 0.238 * std::pow(m, 0.223);
  return 1291 * std::pow(m, 0.251) / (1 + 0.659 * std::pow(m, 0.828)) * (1 + b1 * std::pow(b, b2));
}

}  // namespace

Transfer::Transfer(const Cosmology& cosmology)
    : h_(cosmology.h()), baryon_fraction_(cosmology.omega_b / cosmology.omega_m) {
  const double m = cosmology.omega_m * h_ * h_, b = cosmology.omega_b * h_ * h_;
  const double z_equality = 2.50e4 * m * std::pow(kTemperature, -4);  // (2)
  k_equality_ = 7.46e-2 * m / square(kTemperature);                   // (3)
  const double z_drag = drag_redshift(m, b);
  const auto ratio = [&](double z) { return 31.5 * b * std::pow(kTemperature, -4) * (1000 / z); };  // (5)
  const double r_drag = ratio(z_drag), r_equality = ratio(z_equality);
  sound_horizon_ = 2 / (3 * k_equality_) * std::sqrt(6 / r_equality) *
                   std::log((std::sqrt(1 + r_drag) + std::sqrt(r_drag + r_equality)) / (1 + std::sqrt(r_equality)));
  k_silk_ = 1.6 * std::pow(b, 0.52) * std::pow(m, 0.73) * (1 + std::pow(10.4 * m, -0.95));  // (7)

  const double a1 = std::pow(46.9 * m, 0.670) * (1 + std::pow(32.1 * m, -0.532));  // (11)
  const double a2 = std::pow(12.0 * m, 0.424) * (1 + std::pow(45.0 * m, -0.582));
  alpha_c_ = std::pow(a1, -baryon_fraction_) * std::pow(a2, -baryon_fraction_ * baryon_fraction_ * baryon_fraction_);
  const double b1 = 0.944 / (1 + std::pow(458 * m, -0.708)), b2 = std::pow(0.395 * m, -0.0266);  // (12)
  beta_c_ = 1 / (1 + b1 * (std::pow(1 - baryon_fraction_, b2) - 1));

  alpha_b_ =
      2.07 * k_equality_ * sound_horizon_ * std::pow(1 + r_drag, -0.75) * g((1 + z_equality) / (1 + z_drag));  // (14)
  beta_b_ = 0.5 + baryon_fraction_ + (3 - 2 * baryon_fraction_) * std::sqrt(square(17.2 * m) + 1);             // (24)
  node_ = 8.41 * std::pow(m, 0.435);                                                                           // (23)
}

double Transfer::dark_matter(double k, double q) const {
  const double f = 1 / (1 + std::pow(k * sound_horizon_ / 5.4, 4));  // (18)
  return f * pressureless(q, 1, beta_c_) + (1 - f) * pressureless(q, alpha_c_, beta_c_);
}

double Transfer::baryons(double k, double q) const {
  const double ks = k * sound_horizon_;
  const double shifted = ks / std::cbrt(1 + std::pow(node_ / ks, 3));  // (22)
  const double wave = std::sin(shifted) / shifted;
  return wave * (pressureless(q, 1, 1) / (1 + square(ks / 5.2)) +
                 alpha_b_ / (1 + std::pow(beta_b_ / ks, 3)) * std::exp(-std::pow(k / k_silk_, 1.4)));  // (21)
}

double Transfer::operator()(double k) const {
  const double per_mpc = k * h_;
  const double q = per_mpc / (13.41 * k_equality_);                                                  // (10)
  return baryon_fraction_ * baryons(per_mpc, q) + (1 - baryon_fraction_) * dark_matter(per_mpc, q);  // (16)
}

}  // namespace mrmf::cosmology
