// One universe, from a seed to counts of particles in voxels: particles' gravity by a mesh, their exchange between
// ranks, and their evolution.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "mpi/comm.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"
#include "src/simulators/cosmology/simulate.hpp"

namespace mrmf::cosmology {

// Particles' gravity by a mesh, and the exchange that takes particles to the ranks with the planes around them.

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

// Evolution of particles from their lattice to redshift 0: by displacements alone, or by COLA time steps (Tassev,
// Zaldarriaga & Eisenstein, JCAP 06 (2013) 036). These use a particle mesh to follow what displacements of second order
// leave out.

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

/// A grid of cubes of `cells`^3 lattice cells, x slowest, `size` per axis. A slab has those from plane `first` on.
struct Voxels {
  int cells, size;
  int first = 0;

  PlaneFinder planes() const { return {1 / static_cast<float>(cells), 0, size}; }
};

/// Adds 1 to `counts[voxel * stride]` for the voxel of each particle. All particles are in the slab. False when a count
/// exceeded 65535.
[[nodiscard]] bool count_particles(const Vectors& position, const Voxels& voxels, std::size_t stride,
                                   std::span<std::uint16_t> counts);

constexpr std::size_t kRedshifts = 4;
constexpr std::array<double, kRedshifts> kRedshift = {0, 0.5, 1.5, 3};  ///< the channels of a sample

/// What tells one sample from another.
struct Universe {
  Cosmology cosmology;
  double box = 512;       ///< side in Mpc/h at H_0 = 70, as CosmologySimulation's
  std::uint64_t key = 1;  ///< draws the initial conditions
};

/// Makes samples of one data set. It holds the transforms' plans. Any number of threads may use it, each with its own
/// memory.
class UniverseMaker {
 public:
  /// If a group shares every cube, all calls are collective over it. Its ranks divide settings.size, and it must
  /// outlive this. Null: whole cubes.
  explicit UniverseMaker(const CosmologySimulation& settings, Comm* group = nullptr);

  /// Working memory of one thread.
  class Memory {
   public:
    explicit Memory(const UniverseMaker& maker);

   private:
    friend class UniverseMaker;
    ModeGrid contrast_, scratch_;
    Displacements moved_;
    std::optional<ParticleMesh> mesh_;  // with cola
  };

  /// The planes of voxels on this rank: all, or its share.
  const Slab& slab() const { return voxels_; }
  /// Writes the counts, (slab().planes(), size, size, 4), and returns the labels. A pure function of settings and
  /// sample. FaultError, on all ranks of the group, when more particles meet in one place than its number can hold.
  std::array<float, kLabels> make(Index sample, Memory& memory, std::span<std::uint16_t> counts) const;
  /// Writes the counts of a universe with given parameters. FaultError as above.
  void make(const Universe& universe, Memory& memory, std::span<std::uint16_t> counts) const;

 private:
  void count(const Vectors& position, std::span<std::uint16_t> counts) const;

  CosmologySimulation settings_;
  Comm* group_;
  Slab voxels_;
  int lattice_;  // particles per axis
  Fft lattice_fft_, mesh_fft_;
};

}  // namespace mrmf::cosmology
