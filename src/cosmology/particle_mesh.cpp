#include "src/cosmology/particle_mesh.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf::cosmology {

ParticleMesh::ParticleMesh(const Fft& fft, int lattice)
    : fft_(fft),
      n_(fft.size()),
      per_cell_(static_cast<float>(fft.size() / lattice)),
      shift_(std::fmod(0.5F + (1 - kLatticeOffset) * per_cell_, 1.0F)),
      slopes_(difference_slopes(fft.size())),
      contrast_(fft.modes()),
      scratch_(fft.modes()) {
  for (RealGrid& axis : force_) axis.resize(fft.points());
}

inline ParticleMesh::Cell ParticleMesh::locate(const Vectors& position, std::size_t particle) const {
  const auto n = static_cast<std::size_t>(n_);
  const float mx = position[0][particle] * per_cell_ + shift_;
  const float my = position[1][particle] * per_cell_ + shift_;
  const float mz = position[2][particle] * per_cell_ + shift_;
  const int i = static_cast<int>(mx), j = static_cast<int>(my), k = static_cast<int>(mz);
  const auto wrap = [this](int index) { return index < n_ ? index : index - n_; };
  const auto row = [n](int index) { return static_cast<std::size_t>(index) * n; };
  return {row(wrap(i)) * n,
          row(wrap(i + 1)) * n,
          row(wrap(j)),
          row(wrap(j + 1)),
          static_cast<std::size_t>(wrap(k)),
          static_cast<std::size_t>(wrap(k + 1)),
          mx - static_cast<float>(i),
          my - static_cast<float>(j),
          mz - static_cast<float>(k)};
}

void ParticleMesh::deposit(const Vectors& position, RealGrid& field) const {
  std::fill(field.begin(), field.end(), 0.0F);
  float* to = field.data();
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position, p);
    const auto share = [&](std::size_t row, float weight) {
      to[row + c.z0] += weight * (1 - c.z);
      to[row + c.z1] += weight * c.z;
    };
    share(c.x0 + c.y0, (1 - c.x) * (1 - c.y));
    share(c.x0 + c.y1, (1 - c.x) * c.y);
    share(c.x1 + c.y0, c.x * (1 - c.y));
    share(c.x1 + c.y1, c.x * c.y);
  }
}

void ParticleMesh::update(const Vectors& position) {
  deposit(position, force_[0]);
  fft_.to_modes(force_[0], contrast_);
  // Contrast is particles per point over their mean, and a mesh cell is 1 / per_cell_ of a lattice cell. The mean is
  // the mode that attraction() leaves out.
  const float factor = per_cell_ * per_cell_ / static_cast<float>(fft_.points());
  for (int axis = 0; axis < 3; ++axis) {
    attraction(contrast_, slopes_, axis, factor, scratch_);
    fft_.to_field(scratch_, force_[static_cast<std::size_t>(axis)]);
  }
}

void ParticleMesh::add_forces(const Vectors& position, float factor, Vectors& to) const {
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position, p);
    const float w00 = (1 - c.x) * (1 - c.y), w01 = (1 - c.x) * c.y, w10 = c.x * (1 - c.y), w11 = c.x * c.y;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const float* f = force_[axis].data();
      const auto along = [&](std::size_t row) { return f[row + c.z0] * (1 - c.z) + f[row + c.z1] * c.z; };
      to[axis][p] += factor * (w00 * along(c.x0 + c.y0) + w01 * along(c.x0 + c.y1) + w10 * along(c.x1 + c.y0) +
                               w11 * along(c.x1 + c.y1));
    }
  }
}

}  // namespace mrmf::cosmology
