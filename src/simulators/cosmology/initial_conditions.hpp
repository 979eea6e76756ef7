// Initial conditions: a Gaussian random field, and particles' displacements from their lattice by Lagrangian
// perturbation theory. All its lengths are in cells of the lattice, so wavenumbers are in radians per cell.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/simulators/cosmology/fft.hpp"
#include "src/simulators/cosmology/linear_theory.hpp"

namespace mrmf::cosmology {

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
