// Gravity of particles by a mesh, and how particles get to the ranks that have the planes around them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "mpi/comm.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"

namespace mrmf::cosmology {

/// Which plane of a periodic grid a particle is at, along any axis: planes of the grid's points, or of voxels.
struct PlaneFinder {
  float scale;      ///< planes per lattice cell
  float shift = 0;  ///< of the grid, in planes, in [0, 1)
  int n = 0;        ///< planes in all

  float along(float position) const { return position * scale + shift; }
  int wrapped(int plane) const { return plane < n ? plane : plane - n; }
  int operator()(float position) const { return wrapped(static_cast<int>(along(position))); }
};

/// Particles belong to the slab that they began in and are needed where they have come to: by the rank that has the
/// planes of the mesh, or of the voxels, around them. This takes positions to those ranks and answers back, a portion
/// at a time: what is held twice stays small. Its calls are collective over the group, which outlives it, and every
/// rank has the same number of particles.
class ParticleExchange {
 public:
  using Visit = std::function<void(const Vectors& position)>;
  using Work = std::function<void(const Vectors& position, Vectors& answer)>;
  using Take = std::function<void(std::size_t particle, std::size_t axis, float answer)>;

  explicit ParticleExchange(Comm& group) : group_(group) {}

  /// Calls `visit` with particles that are at this rank's planes, every particle of the group once on one rank. In what
  /// order and in how many portions depends on the number of ranks. `visit` does not throw.
  void visit(const Vectors& position, const PlaneFinder& planes, const Visit& visit);
  /// The same with an answer per particle and axis, for `take` on the particle's own rank.
  void ask(const Vectors& position, const PlaneFinder& planes, const Work& work, const Take& take);

 private:
  /// Particles [first, last) ordered by the rank they go to.
  Exchange send(const Vectors& position, std::size_t first, std::size_t last, const PlaneFinder& planes);
  void sort(const RealGrid& x, std::size_t first, std::size_t last, const PlaneFinder& planes,
            std::vector<int>& counts);

  Comm& group_;
  std::vector<std::size_t> order_;  // particles of this rank's portion
  RealGrid here_;                   // one axis of them
  Vectors there_, answers_;         // what is with this rank
};

/// Gravity of particles by a mesh: masses shared among the eight nearest points (cloud in cell), the potential by
/// Fourier transforms, forces read back with the same weights.
///
/// With a group that shares the cube its calls are collective; every rank has the same number of particles. Forces are
/// the same bits for any number of ranks: masses are added in fixed point, which no order changes.
class ParticleMesh {
 public:
  /// `fft` has `per_axis` mesh cells for each of the lattice's, which has `lattice`^3 particles. It outlives the mesh,
  /// and so does the group, which is the transform's.
  ParticleMesh(const Fft& fft, int lattice, Comm* group = nullptr);

  /// Takes in the particles and works out the forces; positions in lattice cells, in [0, lattice). FaultError when more
  /// than 65535 particles meet at a mesh point.
  void update(const Vectors& position);
  /// Adds `factor` times the force on each particle, which is minus the gradient of the inverse Laplacian of the
  /// density contrast, in lattice cells.
  void add_forces(const Vectors& position, float factor, Vectors& to);

 private:
  /// The nearest points below and above a position, and the weight of the one above, per axis.
  struct Cell {
    std::size_t x0, x1, y0, y1, z0, z1;
    float x, y, z;
  };
  struct Locator;
  Locator locator() const;
  template <typename Take>
  void for_each_force(const Vectors& position, Take&& take) const;
  void deposit(const Vectors& position, RealGrid& masses) const;
  void add_ghost(RealGrid& masses);
  void copy_ghost(RealGrid& force);
  void to_numbers(RealGrid& masses) const;

  const Fft& fft_;
  Comm* group_;
  std::size_t points_, plane_, particles_;
  float per_cell_;      // mesh cells per lattice cell and axis
  PlaneFinder planes_;  // shifted to put the undisturbed lattice half-way between mesh points: even there
  // By differences: exact slopes turn the lattice's own pattern, where it comes near the mesh's highest frequency, into
  // forces of the wrong sign.
  std::vector<float> slopes_;
  // At the mesh points, and once more those of the plane above, which the particles below it see (the ghost).
  Vectors force_;
  ModeGrid contrast_, scratch_;
  std::optional<ParticleExchange> exchange_;  // none: whole cubes
  std::optional<Exchange> up_;                // a plane to the rank above
};

}  // namespace mrmf::cosmology
