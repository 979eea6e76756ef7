// Lagrangian perturbation theory: how far particles have moved from their lattice. Lengths are in cells of the lattice
// throughout, so wavenumbers are in radians per cell.
#pragma once

#include <array>

#include "src/cosmology/fft.hpp"

namespace mrmf::cosmology {

using Vectors = std::array<RealGrid, 3>;  ///< x, y and z parts, one per particle

/// At redshift 0: a particle of the lattice is at q + D(a) first(q) + D_2(a) second(q).
struct Displacements {
  Vectors first;   ///< Zel'dovich
  Vectors second;  ///< 2LPT
};

/// result = factor i k_axis / k^2 source: minus the gradient of the inverse Laplacian. With it a density contrast gives
/// the Zel'dovich displacement and gravity alike.
void attraction(const ModeGrid& source, int n, int axis, float factor, ModeGrid& result);

/// From the modes of the linear density contrast, which are left as they are. `scratch` and the grids of `out` have
/// the transform's size.
void displace(const Fft& fft, const ModeGrid& contrast, ModeGrid& scratch, Displacements& out);

}  // namespace mrmf::cosmology
