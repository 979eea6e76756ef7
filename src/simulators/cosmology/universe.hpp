// Makes one sample, from a seed to counts of particles in voxels, with the evolution of the particles in between.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "src/simulators/cosmology/initial_conditions.hpp"
#include "src/simulators/cosmology/particle_mesh.hpp"
#include "src/simulators/cosmology/simulate.hpp"

namespace mrmf::cosmology {

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
