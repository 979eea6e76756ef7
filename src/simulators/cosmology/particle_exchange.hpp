// Particles belong to the slab that they began in and are needed where they have come to: by the rank that has the
// planes of the mesh, or of the voxels, around them.
#pragma once

#include <functional>

#include "mpi/exchange.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"
#include "src/simulators/cosmology/plane_finder.hpp"

namespace mrmf::cosmology {

/// Takes positions to those ranks and answers back, a portion at a time: what is held twice stays small. Its calls are
/// collective over the group, which outlives it, and every rank has the same number of particles.
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

}  // namespace mrmf::cosmology
