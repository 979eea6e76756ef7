// Evolution of particles from their lattice to redshift 0: by displacements alone, or by COLA time steps (Tassev,
// Zaldarriaga & Eisenstein, JCAP 06 (2013) 036). These use a particle mesh to follow what displacements of second order
// leave out.
#pragma once

#include <functional>
#include <span>

#include "src/simulators/cosmology/linear_theory.hpp"
#include "src/simulators/cosmology/particle_mesh.hpp"

namespace mrmf::cosmology {

/// Positions are in cells of the lattice, in [0, lattice). Particles leave the slab that they began in; their numbers
/// stay.
class Evolution {
 public:
  /// Called with the index in the list of scale factors, and the positions of all particles of the slab.
  using Snapshot = std::function<void(std::size_t index, const Vectors& position)>;

  /// `moved` is the result of displace() for the particles of `lattice`; it and `growth` must outlive the evolution. If
  /// ranks share a slab, cola() is collective over them.
  Evolution(const Growth& growth, const Displacements& moved, const Slab& lattice);

  /// Displacements of second order at each of the ascending scale factors.
  void displaced(std::span<const double> scale_factors, const Snapshot& snapshot);
  /// Makes `steps` steps from a = 0.1 to 1, equal in a, with snapshots on the way. All scale factors are in (0.1, 1].
  void cola(std::span<const double> scale_factors, int steps, ParticleMesh& mesh, const Snapshot& snapshot);

 private:
  void start();
  void drift(double from, double to, double middle);
  void kick(double from, double to, double at, ParticleMesh& mesh);

  const Growth& growth_;
  const Displacements& moved_;
  Slab lattice_;
  Vectors position_;
  Vectors velocity_;  // a^3 H / H_0 times d/da of the displacement that `moved_` leaves out; empty: none
};

}  // namespace mrmf::cosmology
