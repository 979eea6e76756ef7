// Particles' gravity by a mesh, and the exchange that takes particles to the ranks with the planes around them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "mpi/comm.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"

namespace mrmf::cosmology {

/// The plane of a periodic grid that a particle is at, along any axis: planes of the grid's points, or of voxels.
struct PlaneFinder {
  float scale;      ///< planes per lattice cell
  float shift = 0;  ///< shift of the grid, in planes, in [0, 1)
  int n = 0;        ///< planes in all

  float along(float position) const { return position * scale + shift; }
  int wrapped(int plane) const { return plane < n ? plane : plane - n; }
  int operator()(float position) const { return wrapped(static_cast<int>(along(position))); }
};

/// Particles belong to the slab that they began in, but are needed where they have moved to: on the rank with the
/// planes of the mesh, or of the voxels, around them. This sends positions to those ranks and answers back, one portion
/// at a time, so that copies stay small. Its calls are collective over the group, which must outlive it, and every rank
/// has the same number of particles.
class ParticleExchange {
 public:
  using Visit = std::function<void(const Vectors& position)>;
  using Work = std::function<void(const Vectors& position, Vectors& answer)>;
  using Take = std::function<void(std::size_t particle, std::size_t axis, float answer)>;

  explicit ParticleExchange(Comm& group) : group_(group) {}

  /// Calls `visit` with particles at this rank's planes; every particle of the group is visited once, on one rank.
  /// Their order and the number of portions depend on the number of ranks. `visit` must not throw.
  void visit(const Vectors& position, const PlaneFinder& planes, const Visit& visit);
  /// Calls `work` as visit() calls `visit`, for an answer per particle and axis, given to `take` on the particle's own
  /// rank.
  void ask(const Vectors& position, const PlaneFinder& planes, const Work& work, const Take& take);

 private:
  /// Orders particles [first, last) by the rank they go to, and sends them.
  AllToAll send(const Vectors& position, std::size_t first, std::size_t last, const PlaneFinder& planes);
  void sort(const RealGrid& x, std::size_t first, std::size_t last, const PlaneFinder& planes,
            std::vector<int>& counts);

  Comm& group_;
  std::vector<std::size_t> order_;  // order of the particles of this rank's portion
  RealGrid here_;                   // one axis of them
  Vectors there_, answers_;         // the particles that are with this rank
};

/// Particles' gravity by a mesh. Masses are shared among the eight nearest points (cloud in cell), the potential comes
/// from Fourier transforms, and forces are read back with the same weights.
///
/// If a group shares the cube, calls are collective; every rank has the same number of particles. Forces have the same
/// bits for any number of ranks, because masses are added in fixed point, whatever their order.
class ParticleMesh {
 public:
  /// `fft` has `per_axis` mesh cells for each cell of the lattice, which has `lattice`^3 particles. It must outlive the
  /// mesh, and so must the group, which is the transform's.
  ParticleMesh(const Fft& fft, int lattice, Comm* group = nullptr);

  /// Takes the particles and computes the forces; positions are in lattice cells, in [0, lattice). FaultError when more
  /// than 65535 particles meet at a mesh point.
  void update(const Vectors& position);
  /// Adds `factor` times the force on each particle, in lattice cells: minus the gradient of the inverse Laplacian of
  /// the density contrast.
  void add_forces(const Vectors& position, float factor, Vectors& to);

 private:
  /// The nearest points below and above a position, and the weight of the upper one, per axis.
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
  PlaneFinder planes_;  // puts the undisturbed lattice half-way between mesh points, where it looks even
  // Slopes by differences. Near the mesh's highest frequency, exact slopes turn the lattice's own pattern into forces
  // of the wrong sign.
  std::vector<float> slopes_;
  // Forces at the mesh points, and again at those of the plane above (the ghost), which the particles below it need.
  Vectors force_;
  ModeGrid contrast_, scratch_;
  std::optional<ParticleExchange> exchange_;  // none: whole cubes
  std::optional<AllToAll> up_;                // sends a plane to the rank above
};

}  // namespace mrmf::cosmology
