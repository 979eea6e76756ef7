// Initial conditions: a Gaussian random field, and by Lagrangian perturbation theory how far particles have moved from
// their lattice. The theory's lengths are in cells of the lattice throughout, so wavenumbers are in radians per cell.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/simulators/cosmology/fft.hpp"
#include "src/simulators/cosmology/linear_theory.hpp"

namespace mrmf::cosmology {

/// The modes of a Gaussian density contrast with mean |mode|^2 = power(k) / side^3 in a periodic box, so that
/// Fft::to_field gives the contrast itself; side in Mpc/h. A mode is a pure function of its three frequencies and the
/// key: grids of any size share the modes they both have, and a slab has those of the whole. The mean and modes at the
/// grid's highest frequency, which have no sign, are zero.
void draw_modes(const LinearPower& power, double side, std::uint64_t key, const Slab& slab, ModeGrid& modes);

using Vectors = std::array<RealGrid, 3>;  ///< x, y and z parts, one per particle that began in this slab

/// Where particles begin, from the faces of the lattice's cells. Voxels see a particle only once it crosses a face; how
/// many do is proportional to how far they move when their distances from the faces are spread evenly. A quarter is
/// even up to the second harmonic, so counts follow displacements down to about a quarter of a cell (from the middle of
/// the cells, clustering at redshift 3 would be too small by 70 % there).
constexpr float kLatticeOffset = 0.25F;

/// At redshift 0: a particle of the lattice is at q + D(a) first(q) + D_2(a) second(q).
struct Displacements {
  Vectors first;   ///< Zel'dovich
  Vectors second;  ///< 2LPT
};

/// The derivative of a wave, per index of an axis of n points, in units of 2 pi i / side: its frequency; 0 for the
/// highest, which has no sign.
std::vector<float> exact_slopes(int n);
/// The same taken from four neighbours: falls to 0 towards the highest frequency.
std::vector<float> difference_slopes(int n);

/// result = factor i k_axis / k^2 source, k_axis by `slopes` of an axis: minus the gradient of the inverse Laplacian.
/// With it a density contrast gives the Zel'dovich displacement and gravity alike.
struct Attraction {
  int axis;
  float factor;
  const std::vector<float>& slopes;
};
void attraction(const ModeGrid& source, const Slab& slab, const Attraction& what, ModeGrid& result);

/// From the modes of the linear density contrast, which are left as they are. `scratch` and the grids of `out` have
/// the transform's size.
void displace(const Fft& fft, const ModeGrid& contrast, ModeGrid& scratch, Displacements& out);

}  // namespace mrmf::cosmology
