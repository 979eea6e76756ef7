#include "src/simulators/cosmology/fft.hpp"

#include <fftw3.h>

#include <algorithm>

#include "kernels/errors.hpp"
#include "mpi/slab_transpose.hpp"

namespace mrmf::cosmology {
namespace {

using Mode = std::complex<float>;

struct DestroyPlan {
  void operator()(fftwf_plan plan) const { fftwf_destroy_plan(plan); }
};
using Plan = std::unique_ptr<std::remove_pointer_t<fftwf_plan>, DestroyPlan>;

fftwf_complex* raw(Mode* modes) { return reinterpret_cast<fftwf_complex*>(modes); }

/// A transform along x for all z of one y, in place.
Plan plan_lines(int n, Mode* plane, int sign) {
  const int rows = n / 2 + 1;
  // Estimated plans are the same in every run. Measured ones are not, and would change the last bits of results.
  return Plan(fftwf_plan_many_dft(1, &n, rows, raw(plane), nullptr, rows, 1, raw(plane), nullptr, rows, 1, sign,
                                  FFTW_ESTIMATE));
}

/// Copies the z rows of a plane (y, z) at x to or from their places among the modes (y, x, z).
template <typename Copy>
void for_each_row(int n, int x, Copy&& copy) {
  const auto size = static_cast<std::size_t>(n), row = size / 2 + 1;
  for (std::size_t y = 0; y < size; ++y) copy(y * row, (y * size + static_cast<std::size_t>(x)) * row, row);
}

}  // namespace

struct Fft::Plans {
  Plan planes_forward, planes_backward, lines_forward, lines_backward;
  std::unique_ptr<SlabTranspose> transpose;  // null: whole cubes
};

Fft::Fft(int n, Comm* group) : slab_{n}, plans_(std::make_unique<Plans>()) {
  if (group != nullptr) slab_ = {n, group->rank(), group->size()};
  const int row = n / 2 + 1;
  const auto size = static_cast<std::size_t>(n);
  RealGrid field(size * size);
  ModeGrid plane(size * static_cast<std::size_t>(row));
  plans_->planes_forward.reset(fftwf_plan_dft_r2c_2d(n, n, field.data(), raw(plane.data()), FFTW_ESTIMATE));
  plans_->planes_backward.reset(fftwf_plan_dft_c2r_2d(n, n, raw(plane.data()), field.data(), FFTW_ESTIMATE));
  plans_->lines_forward = plan_lines(n, plane.data(), FFTW_FORWARD);
  plans_->lines_backward = plan_lines(n, plane.data(), FFTW_BACKWARD);
  MRMF_CHECK(plans_->planes_forward && plans_->planes_backward && plans_->lines_forward && plans_->lines_backward,
             "FFTW has no plan for this size");
  if (group != nullptr) plans_->transpose = std::make_unique<SlabTranspose>(*group, n, 2 * row);
}

Fft::~Fft() = default;

void Fft::to_modes(std::span<float> field, ModeGrid& modes) const {
  MRMF_CHECK(field.size() == slab_.points() && modes.size() == slab_.modes(), "grids of another size");
  const std::size_t points = slab_.points() / static_cast<std::size_t>(slab_.planes());
  const std::size_t plane = slab_.modes() / static_cast<std::size_t>(slab_.planes());
  const auto planes = static_cast<std::size_t>(slab_.planes());
  ModeGrid buffer(plans_->transpose ? 0 : plane);
  for (std::size_t x = 0; x < planes; ++x) {
    Mode* to = plans_->transpose ? modes.data() + x * plane : buffer.data();
    fftwf_execute_dft_r2c(plans_->planes_forward.get(), field.data() + x * points, raw(to));
    if (!plans_->transpose)
      for_each_row(slab_.n, static_cast<int>(x), [&](std::size_t here, std::size_t there, std::size_t count) {
        std::copy_n(to + here, count, modes.data() + there);
      });
  }
  if (plans_->transpose) plans_->transpose->swap({reinterpret_cast<float*>(modes.data()), 2 * modes.size()});
  for (std::size_t y = 0; y < planes; ++y) {
    fftwf_complex* lines = raw(modes.data() + y * plane);
    fftwf_execute_dft(plans_->lines_forward.get(), lines, lines);
  }
}

void Fft::to_field(ModeGrid& modes, std::span<float> field) const {
  MRMF_CHECK(field.size() == slab_.points() && modes.size() == slab_.modes(), "grids of another size");
  const auto planes = static_cast<std::size_t>(slab_.planes());
  const std::size_t points = slab_.points() / planes, plane = slab_.modes() / planes;
  for (std::size_t y = 0; y < planes; ++y) {
    fftwf_complex* lines = raw(modes.data() + y * plane);
    fftwf_execute_dft(plans_->lines_backward.get(), lines, lines);
  }
  if (plans_->transpose) plans_->transpose->swap({reinterpret_cast<float*>(modes.data()), 2 * modes.size()});
  ModeGrid buffer(plans_->transpose ? 0 : plane);
  for (std::size_t x = 0; x < planes; ++x) {
    Mode* from = plans_->transpose ? modes.data() + x * plane : buffer.data();
    if (!plans_->transpose)
      for_each_row(slab_.n, static_cast<int>(x), [&](std::size_t here, std::size_t there, std::size_t count) {
        std::copy_n(modes.data() + there, count, from + here);
      });
    fftwf_execute_dft_c2r(plans_->planes_backward.get(), raw(from), field.data() + x * points);
  }
}

}  // namespace mrmf::cosmology
