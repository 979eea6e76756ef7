// Linear theory of structure formation: the parameters of a universe, growth, the transfer function and the power
// spectrum.
#pragma once

#include <array>
#include <cstdint>

namespace mrmf::cosmology {

/// The integral of f over [from, to] by Simpson's rule with `intervals` (even) pieces, for smooth functions.
template <typename Function>
double integrate(double from, double to, int intervals, Function&& f) {
  const double step = (to - from) / intervals;
  double sum = f(from) + f(to);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * f(from + i * step);
  return sum * step / 3;
}

constexpr std::size_t kLabels = 4;  ///< the parameters that vary
/// Their names, in the order of the published files.
constexpr std::array<const char*, kLabels> kLabelNames = {"Omega_m", "sigma_8", "N_spec", "H_0"};

/// The parameters of a universe: flat, with a cosmological constant and no radiation.
struct Cosmology {
  double omega_m = 0.3;
  double sigma_8 = 0.8;
  double n_s = 0.96;
  double hubble = 70;  ///< H_0 in km/s/Mpc
  double omega_b = 0.045;
  double h() const { return hubble / 100; }
};

/// Uniform in [-1, 1) in steps of 2^-23, so exact in float32. A pure function of its arguments.
std::array<float, kLabels> draw_labels(std::uint64_t seed, std::int64_t sample);

/// Each label moves its parameter by up to 10 % about 0.3, 0.8, 0.96, 70.
Cosmology cosmology_of(const std::array<float, kLabels>& labels);

/// Growth of structure with the scale factor a = 1 / (1 + z) in a flat universe of matter and a cosmological constant.
class Growth {
 public:
  explicit Growth(double omega_m);

  double expansion(double a) const;  ///< H(a) / H_0
  double linear(double a) const;     ///< D(a), 1 at a = 1; 0 at a = 0
  /// Growth of the second-order displacement, in units of it at a = 1; the usual fit D^2 Omega_m(a)^(-1/143).
  double second(double a) const;
  double omega_m() const { return omega_m_; }

 private:
  double unscaled(double a) const;

  double omega_m_, scale_;
};

/// The transfer function of Eisenstein & Hu, ApJ 496, 605 (1998): cold dark matter and baryons, with the wiggles left
/// by sound waves. Their equation numbers stand beside the code.
class Transfer {
 public:
  explicit Transfer(const Cosmology& cosmology);
  /// T(k), 1 for k -> 0; k in h/Mpc, positive.
  double operator()(double k) const;
  /// r_s in Mpc: how far sound travelled until baryons and photons decoupled.
  double sound_horizon() const { return sound_horizon_; }

 private:
  double baryons(double k, double q) const;
  double dark_matter(double k, double q) const;

  double h_, baryon_fraction_;
  double k_equality_, k_silk_, sound_horizon_;         // 1/Mpc, 1/Mpc, Mpc
  double alpha_c_, beta_c_, alpha_b_, beta_b_, node_;  // suppressions and shifts of the two parts
};

/// The linear power spectrum today.
class LinearPower {
 public:
  explicit LinearPower(const Cosmology& cosmology);
  /// P(k) = A k^n_s T(k)^2 in (Mpc/h)^3 at redshift 0, with A such that sigma(8) is sigma_8; k in h/Mpc, positive.
  double operator()(double k) const;
  /// Standard deviation of the density in spheres of this radius in Mpc/h.
  double sigma(double radius) const;

 private:
  Transfer transfer_;
  double slope_, amplitude_ = 1;
};

}  // namespace mrmf::cosmology
