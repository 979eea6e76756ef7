// Initial conditions of a universe: its parameters, growth and power spectrum by linear theory, grids with Fourier
// transforms, and from these a Gaussian random field and the displacements of particles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/comm.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf::cosmology {

// Linear theory of structure formation: the parameters of a universe, growth, the transfer function and the power
// spectrum.

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

// Cubic grids, their division among ranks (each has consecutive planes of every grid), and the Fourier transforms
// between them, by FFTW in single precision. Only initial_conditions.cpp sees fftw3.h.

// In cubes, points are stored x slowest, z fastest, and modes, (n, n, n/2 + 1), y slowest, z fastest.
using mrmf::frequency, mrmf::ModeGrid, mrmf::RealGrid;

/// One rank's share of a cubic grid of n points per axis. It has planes of x for points, and planes of y (the
/// frequency's index) for modes, so a Fourier transform transposes slabs once. `ranks` divides n.
struct Slab {
  int n = 0;
  int rank = 0, ranks = 1;

  int planes() const { return n / ranks; }
  int first() const { return rank * planes(); }
  bool whole() const { return ranks == 1; }
  std::size_t points() const { return planes_of(static_cast<std::size_t>(n)); }         ///< here
  std::size_t modes() const { return planes_of(static_cast<std::size_t>(n / 2 + 1)); }  ///< here
  std::size_t cube() const { return points() * static_cast<std::size_t>(ranks); }       ///< points of all ranks

 private:
  std::size_t planes_of(std::size_t row) const {
    return static_cast<std::size_t>(planes()) * static_cast<std::size_t>(n) * row;
  }
};

/// Calls f(index, x, y, z) with the signed frequencies of every mode stored here: y slowest, z fastest.
template <typename Function>
void for_each_mode(const Slab& slab, Function&& f) {
  std::size_t index = 0;
  const int n = slab.n;
  for (int j = slab.first(); j < slab.first() + slab.planes(); ++j)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k <= n / 2; ++k) f(index++, frequency(i, n), frequency(j, n), k);
}

/// Transforms of one size, for cubes that a thread holds whole or that a group of ranks shares. Both give the same
/// bits, because the same plans work plane by plane. Only one thread at a time may make one. Any number of threads may
/// use it, or it is collective over the group.
class Fft {
 public:
  /// `group` must outlive it, and its ranks divide n; null: whole cubes.
  explicit Fft(int n, Comm* group = nullptr);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;

  int size() const { return slab_.n; }
  const Slab& slab() const { return slab_; }
  /// modes = sum over points of field exp(-ikx), without a factor. Leaves the field (slab().points()) unchanged.
  void to_modes(std::span<float> field, ModeGrid& modes) const;
  /// field = sum over all modes of mode exp(ikx), without a factor. Destroys the modes.
  void to_field(ModeGrid& modes, std::span<float> field) const;

 private:
  struct Plans;
  Slab slab_;
  std::unique_ptr<Plans> plans_;
};

// Initial conditions: a Gaussian random field, and particles' displacements from their lattice by Lagrangian
// perturbation theory. All its lengths are in cells of the lattice, so wavenumbers are in radians per cell.

/// Draws the modes of a Gaussian density contrast with mean |mode|^2 = power(k) / side^3 in a periodic box, so that
/// Fft::to_field gives the contrast itself; side in Mpc/h. A mode is a pure function of its three frequencies and the
/// key, so grids of different sizes share their common modes, and a slab has those of the whole. The mean is zero, and
/// so are modes at the grid's highest frequency, which have no sign.
void draw_modes(const LinearPower& power, double side, std::uint64_t key, const Slab& slab, ModeGrid& modes);

using Vectors = std::array<RealGrid, 3>;  ///< x, y and z parts, one per particle that began in this slab

/// Distance of particles' starting points from the faces of the lattice's cells. Voxels notice a particle only when it
/// crosses a face. The number that do is proportional to how far they move, if their distances from the faces are
/// spread evenly. A quarter is even up to the second harmonic, so counts follow displacements down to about a quarter
/// of a cell. From the middle of the cells, clustering at redshift 3 would be too small by 70 % there.
constexpr float kLatticeOffset = 0.25F;

/// Displacements at redshift 0: a particle of the lattice is at q + D(a) first(q) + D_2(a) second(q).
struct Displacements {
  Vectors first;   ///< Zel'dovich
  Vectors second;  ///< 2LPT
};

/// The derivative of a wave for each index of an axis of n points, in units of 2 pi i / side: its frequency, but 0 for
/// the highest, which has no sign.
std::vector<float> exact_slopes(int n);
/// The same derivative from four neighbours. It falls to 0 towards the highest frequency.
std::vector<float> difference_slopes(int n);

/// result = factor i k_axis / k^2 source, with k_axis from the `slopes` of an axis: minus the gradient of the inverse
/// Laplacian. It turns a density contrast into the Zel'dovich displacement, and likewise into gravity.
struct Attraction {
  int axis;
  float factor;
  const std::vector<float>& slopes;
};
void attraction(const ModeGrid& source, const Slab& slab, const Attraction& what, ModeGrid& result);

/// Displacements from the modes of the linear density contrast, which are left unchanged. `scratch` and the grids of
/// `out` have the transform's size.
void displace(const Fft& fft, const ModeGrid& contrast, ModeGrid& scratch, Displacements& out);

}  // namespace mrmf::cosmology
