#include "src/simulators/cosmology/linear_theory.hpp"

#include <cmath>
#include <numbers>

#include "kernels/random.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::uint64_t kLabelStream = 0x6C6162656C;  // apart from the stream of the sample's field

constexpr double kTemperature = 2.7255 / 2.7;  // that of the microwave background, in units of 2.7 K

double square(double x) { return x * x; }

// (19)-(20), without scaling the wavenumber.
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

double top_hat(double x) { return x < 1e-3 ? 1 - x * x / 10 : 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x); }

}  // namespace

std::array<float, kLabels> draw_labels(std::uint64_t seed, std::int64_t sample) {
  Rng rng(mix(seed, static_cast<std::uint64_t>(sample), kLabelStream));
  std::array<float, kLabels> u{};
  for (float& x : u) x = static_cast<float>(rng.next() >> 8) * 0x1.0p-23F - 1.0F;
  return u;
}

Cosmology cosmology_of(const std::array<float, kLabels>& labels) {
  const Cosmology middle;
  const auto about = [&](double value, std::size_t i) { return value * (1 + 0.1 * static_cast<double>(labels[i])); };
  return {about(middle.omega_m, 0), about(middle.sigma_8, 1), about(middle.n_s, 2), about(middle.hubble, 3),
          middle.omega_b};
}

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

LinearPower::LinearPower(const Cosmology& cosmology) : transfer_(cosmology), slope_(cosmology.n_s) {
  const double ratio = cosmology.sigma_8 / sigma(8);
  amplitude_ = ratio * ratio;
}

double LinearPower::operator()(double k) const {
  const double t = transfer_(k);
  return amplitude_ * std::pow(k, slope_) * t * t;
}

double LinearPower::sigma(double radius) const {
  // Integrates over ln k. Beyond the ends the integrand is below 1e-7 of its peak for radii of a few Mpc/h.
  const double variance = integrate(std::log(1e-5), std::log(50 / radius), 4000, [&](double log_k) {
    const double k = std::exp(log_k), w = top_hat(k * radius);
    return k * k * k * (*this)(k)*w * w;
  });
  return std::sqrt(variance / (2 * std::numbers::pi * std::numbers::pi));
}

}  // namespace mrmf::cosmology
