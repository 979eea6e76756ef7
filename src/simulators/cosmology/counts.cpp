#include "src/simulators/cosmology/counts.hpp"

namespace mrmf::cosmology {

bool count_particles(const Vectors& position, const Voxels& voxels, std::size_t stride,
                     std::span<std::uint16_t> counts) {
  const PlaneFinder planes = voxels.planes();
  const auto voxel = [&planes](float x) { return static_cast<std::size_t>(planes(x)); };
  const auto n = static_cast<std::size_t>(voxels.size), first = static_cast<std::size_t>(voxels.first);
  bool fits = true;
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const std::size_t plane = voxel(position[0][p]) - first;
    std::uint16_t& count = counts[((plane * n + voxel(position[1][p])) * n + voxel(position[2][p])) * stride];
    fits &= ++count != 0;
  }
  return fits;
}

}  // namespace mrmf::cosmology
