// Particles from their lattice to redshift 0: by displacements alone, or by COLA time steps (Tassev, Zaldarriaga &
// Eisenstein, JCAP 06 (2013) 036), which follow by a particle mesh what displacements of second order leave out.
#pragma once

#include <functional>
#include <span>

#include "src/simulators/cosmology/linear_theory.hpp"
#include "src/simulators/cosmology/particle_mesh.hpp"

namespace mrmf::cosmology {

/// Positions are in cells of the lattice, in [0, lattice): particles leave the slab that they began in, their numbers
/// do not.
class Evolution {
 public:
  /// Called with the position in the list of scale factors and the positions of all particles of the slab.
  using Snapshot = std::function<void(std::size_t index, const Vectors& position)>;

  /// `moved` is displace()'s for the particles of `lattice`; it and `growth` outlive the evolution. A slab shared by
  /// ranks makes cola() collective over them.
  Evolution(const Growth& growth, const Displacements& moved, const Slab& lattice);

  /// Displacements of second order at each of the scale factors, which ascend.
  void displaced(std::span<const double> scale_factors, const Snapshot& snapshot);
  /// `steps` steps from a = 0.1 to 1, equal in a; snapshots on the way. All scale factors are in (0.1, 1].
  void cola(std::span<const double> scale_factors, int steps, ParticleMesh& mesh, const Snapshot& snapshot);

 private:
  void start();
  void drift(double from, double to, double middle);
  void kick(double from, double to, double at, ParticleMesh& mesh);

  const Growth& growth_;
  const Displacements& moved_;
  Slab lattice_;
  Vectors position_;
  Vectors velocity_;  // a^3 H / H_0 times the change with a of the way left out by displacements; empty: none
};

}  // namespace mrmf::cosmology
