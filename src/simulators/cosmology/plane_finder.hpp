// Which plane of a grid a particle is at.
#pragma once

namespace mrmf::cosmology {

/// Planes of a periodic grid, along any axis: of its points, or of voxels.
struct PlaneFinder {
  float scale;      ///< planes per lattice cell
  float shift = 0;  ///< of the grid, in planes, in [0, 1)
  int n = 0;        ///< planes in all

  float along(float position) const { return position * scale + shift; }
  int wrapped(int plane) const { return plane < n ? plane : plane - n; }
  int operator()(float position) const { return wrapped(static_cast<int>(along(position))); }
};

}  // namespace mrmf::cosmology
