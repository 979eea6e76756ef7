// From particles to voxels.
#pragma once

#include <cstdint>
#include <span>

#include "src/cosmology/lpt.hpp"

namespace mrmf::cosmology {

/// Adds 1 to `counts[voxel * stride]` for the voxel that holds each particle: voxels are cubes of `cells`^3 lattice
/// cells, x slowest, `size` per axis. FaultError when a count passes 65535.
void count_particles(const Vectors& position, int cells, int size, std::size_t stride, std::span<std::uint16_t> counts);

}  // namespace mrmf::cosmology
