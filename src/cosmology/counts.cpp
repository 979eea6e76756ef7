#include "src/cosmology/counts.hpp"

#include "kernels/check.hpp"

namespace mrmf::cosmology {

void count_particles(const Vectors& position, int cells, int size, std::size_t stride,
                     std::span<std::uint16_t> counts) {
  const float scale = 1 / static_cast<float>(cells);
  const auto voxel = [scale](float x) { return static_cast<std::size_t>(x * scale); };
  const auto n = static_cast<std::size_t>(size);
  bool overflow = false;
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    std::uint16_t& count =
        counts[((voxel(position[0][p]) * n + voxel(position[1][p])) * n + voxel(position[2][p])) * stride];
    overflow |= ++count == 0;
  }
  if (overflow)
    throw FaultError(
        "simulate cosmology: more than 65535 particles meet in a voxel, more than the files' 16 bits hold; ask for "
        "fewer particles per voxel or a larger box");
}

}  // namespace mrmf::cosmology
