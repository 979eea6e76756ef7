#include "src/cosmology/fft.hpp"

#include <fftw3.h>

#include "kernels/check.hpp"

namespace mrmf::cosmology {
namespace {

struct DestroyPlan {
  void operator()(fftwf_plan plan) const { fftwf_destroy_plan(plan); }
};
using Plan = std::unique_ptr<std::remove_pointer_t<fftwf_plan>, DestroyPlan>;

fftwf_complex* raw(ModeGrid& modes) { return reinterpret_cast<fftwf_complex*>(modes.data()); }

}  // namespace

struct Fft::Plans {
  Plan forward, backward;
};

Fft::Fft(int n) : n_(n), plans_(std::make_unique<Plans>()) {
  RealGrid field(points());
  ModeGrid spectrum(modes());
  // Estimated plans are the same in every run; measured ones are not, and would change the last bits of results.
  plans_->forward.reset(fftwf_plan_dft_r2c_3d(n, n, n, field.data(), raw(spectrum), FFTW_ESTIMATE));
  plans_->backward.reset(fftwf_plan_dft_c2r_3d(n, n, n, raw(spectrum), field.data(), FFTW_ESTIMATE));
  MRMF_CHECK(plans_->forward && plans_->backward, "FFTW has no plan for this size");
}

Fft::~Fft() = default;

std::size_t Fft::points() const {
  const auto n = static_cast<std::size_t>(n_);
  return n * n * n;
}

std::size_t Fft::modes() const {
  const auto n = static_cast<std::size_t>(n_);
  return n * n * (n / 2 + 1);
}

void Fft::to_modes(RealGrid& field, ModeGrid& modes) const {
  MRMF_CHECK(field.size() == points() && modes.size() == this->modes(), "grids of another size");
  fftwf_execute_dft_r2c(plans_->forward.get(), field.data(), raw(modes));
}

void Fft::to_field(ModeGrid& modes, RealGrid& field) const {
  MRMF_CHECK(field.size() == points() && modes.size() == this->modes(), "grids of another size");
  fftwf_execute_dft_c2r(plans_->backward.get(), raw(modes), field.data());
}

}  // namespace mrmf::cosmology
