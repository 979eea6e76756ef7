// Gravity of particles by a mesh: masses shared among the eight nearest points (cloud in cell), the potential by
// Fourier transforms, forces read back with the same weights.
#pragma once

#include "src/cosmology/lpt.hpp"

namespace mrmf::cosmology {

class ParticleMesh {
 public:
  /// `fft` has `per_axis` mesh cells for each of the lattice's, which has `lattice`^3 particles. It outlives the mesh.
  ParticleMesh(const Fft& fft, int lattice);

  /// Takes in the particles; positions in lattice cells, in [0, lattice).
  void deposit(const Vectors& position);
  /// After deposit(): makes the force along an axis, which is minus the gradient of the inverse Laplacian of the
  /// density contrast, in lattice cells. One axis at a time.
  void prepare_force(int axis);
  /// The prepared force at a position.
  float force(float x, float y, float z) const;

  const RealGrid& field() const { return field_; }  ///< deposit(): particles per point; prepare_force(): the force

 private:
  /// The nearest points below and above a position, and the weight of the one above, per axis.
  struct Cell {
    std::size_t x0, x1, y0, y1, z0, z1;
    float x, y, z;
  };
  Cell locate(float x, float y, float z) const;

  const Fft& fft_;
  int n_;
  float per_cell_;  // mesh cells per lattice cell and axis
  RealGrid field_;
  ModeGrid contrast_, scratch_;
};

}  // namespace mrmf::cosmology
