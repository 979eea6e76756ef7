#include "src/cosmology/particle_mesh.hpp"

#include <algorithm>

namespace mrmf::cosmology {

ParticleMesh::ParticleMesh(const Fft& fft, int lattice)
    : fft_(fft),
      n_(fft.size()),
      per_cell_(static_cast<float>(fft.size() / lattice)),
      field_(fft.points()),
      contrast_(fft.modes()),
      scratch_(fft.modes()) {}

inline ParticleMesh::Cell ParticleMesh::locate(float x, float y, float z) const {
  const auto n = static_cast<std::size_t>(n_);
  const float mx = x * per_cell_, my = y * per_cell_, mz = z * per_cell_;
  const int i = static_cast<int>(mx), j = static_cast<int>(my), k = static_cast<int>(mz);
  const auto row = [n](int index) { return static_cast<std::size_t>(index) * n; };
  const auto next = [this](int index) { return index + 1 == n_ ? 0 : index + 1; };
  return {row(i) * n,
          row(next(i)) * n,
          row(j),
          row(next(j)),
          static_cast<std::size_t>(k),
          static_cast<std::size_t>(next(k)),
          mx - static_cast<float>(i),
          my - static_cast<float>(j),
          mz - static_cast<float>(k)};
}

void ParticleMesh::deposit(const Vectors& position) {
  std::fill(field_.begin(), field_.end(), 0.0F);
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position[0][p], position[1][p], position[2][p]);
    const auto share = [&](std::size_t row, float weight) {
      field_[row + c.z0] += weight * (1 - c.z);
      field_[row + c.z1] += weight * c.z;
    };
    share(c.x0 + c.y0, (1 - c.x) * (1 - c.y));
    share(c.x0 + c.y1, (1 - c.x) * c.y);
    share(c.x1 + c.y0, c.x * (1 - c.y));
    share(c.x1 + c.y1, c.x * c.y);
  }
  fft_.to_modes(field_, contrast_);
}

void ParticleMesh::prepare_force(int axis) {
  // Contrast is particles per point over their mean; a mesh cell is 1 / per_cell_ of a lattice cell. The mean itself
  // is the mode that attraction() leaves out.
  const float mean_inverse = per_cell_ * per_cell_ * per_cell_;
  attraction(contrast_, n_, axis, mean_inverse / static_cast<float>(fft_.points()) / per_cell_, scratch_);
  fft_.to_field(scratch_, field_);
}

float ParticleMesh::force(float x, float y, float z) const {
  const Cell c = locate(x, y, z);
  const auto along = [&](std::size_t row) { return field_[row + c.z0] * (1 - c.z) + field_[row + c.z1] * c.z; };
  return (1 - c.x) * ((1 - c.y) * along(c.x0 + c.y0) + c.y * along(c.x0 + c.y1)) +
         c.x * ((1 - c.y) * along(c.x1 + c.y0) + c.y * along(c.x1 + c.y1));
}

}  // namespace mrmf::cosmology
