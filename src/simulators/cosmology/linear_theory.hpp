// The parameters of a universe, and how they are drawn.
#pragma once

#include <array>
#include <cstdint>

namespace mrmf::cosmology {

constexpr std::size_t kLabels = 4;
/// As the published files order them.
constexpr std::array<const char*, kLabels> kLabelNames = {"Omega_m", "sigma_8", "N_spec", "H_0"};

/// Flat, with a cosmological constant and no radiation.
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

}  // namespace mrmf::cosmology
