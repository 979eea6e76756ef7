// Gravity of particles by a mesh: masses shared among the eight nearest points (cloud in cell), the potential by
// Fourier transforms, forces read back with the same weights.
#pragma once

#include "src/cosmology/lpt.hpp"

namespace mrmf::cosmology {

class ParticleMesh {
 public:
  /// `fft` has `per_axis` mesh cells for each of the lattice's, which has `lattice`^3 particles. It outlives the mesh.
  ParticleMesh(const Fft& fft, int lattice);

  /// Takes in the particles and works out the forces; positions in lattice cells, in [0, lattice).
  void update(const Vectors& position);
  /// Adds `factor` times the force on each particle, which is minus the gradient of the inverse Laplacian of the
  /// density contrast, in lattice cells.
  void add_forces(const Vectors& position, float factor, Vectors& to) const;

 private:
  /// The nearest points below and above a position, and the weight of the one above, per axis.
  struct Cell {
    std::size_t x0, x1, y0, y1, z0, z1;
    float x, y, z;
  };
  Cell locate(const Vectors& position, std::size_t particle) const;
  void deposit(const Vectors& position, RealGrid& field) const;

  const Fft& fft_;
  int n_;
  float per_cell_;  // mesh cells per lattice cell and axis
  float shift_;     // of the mesh, which puts the undisturbed lattice half-way between mesh points: even there
  // By differences: exact slopes turn the lattice's own pattern, where it comes near the mesh's highest frequency, into
  // forces of the wrong sign.
  std::vector<float> slopes_;
  Vectors force_;  // at the mesh points
  ModeGrid contrast_, scratch_;
};

}  // namespace mrmf::cosmology
