// From particles to voxels.
#pragma once

#include <cstdint>
#include <span>

#include "src/simulators/cosmology/initial_conditions.hpp"
#include "src/simulators/cosmology/plane_finder.hpp"

namespace mrmf::cosmology {

/// Cubes of `cells`^3 lattice cells, x slowest, `size` per axis, of which a slab has those from plane `first` on.
struct Voxels {
  int cells, size;
  int first = 0;

  PlaneFinder planes() const { return {1 / static_cast<float>(cells), 0, size}; }
};

/// Adds 1 to `counts[voxel * stride]` for the voxel that holds each particle, all of which are in the slab. False when
/// a count passed 65535.
[[nodiscard]] bool count_particles(const Vectors& position, const Voxels& voxels, std::size_t stride,
                                   std::span<std::uint16_t> counts);

}  // namespace mrmf::cosmology
