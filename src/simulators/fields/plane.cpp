#include "src/simulators/fields/plane.hpp"

#include <fftw3.h>

#include <cmath>

#include "kernels/check.hpp"

namespace mrmf::fields {
namespace {

fftwf_complex* raw(ModeGrid& modes) { return reinterpret_cast<fftwf_complex*>(modes.data()); }

}  // namespace

struct PlaneFft::Plan {
  fftwf_plan backward;
  explicit Plan(fftwf_plan plan) : backward(plan) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { fftwf_destroy_plan(backward); }
};

PlaneFft::PlaneFft(int n) : n_(n) {
  ModeGrid modes(plane_modes(n));
  RealGrid field(plane_points(n));
  // Estimated plans are the same in every run. Measured ones are not, and would change the last bits of results.
  const fftwf_plan plan = fftwf_plan_dft_c2r_2d(n, n, raw(modes), field.data(), FFTW_ESTIMATE);
  MRMF_CHECK(plan != nullptr, "FFTW has no plan for this size");
  plan_ = std::make_unique<Plan>(plan);
}

PlaneFft::~PlaneFft() = default;

void PlaneFft::to_field(ModeGrid& modes, RealGrid& field) const {
  MRMF_CHECK(modes.size() == plane_modes(n_) && field.size() == plane_points(n_), "grids of another size");
  fftwf_execute_dft_c2r(plan_->backward, raw(modes), field.data());
}

PowerLaw::PowerLaw(int n, double slope) : n_(n), amplitude_(plane_modes(n)) {
  double variance = 0;
  for_each_mode(n, [&](std::size_t index, int x, int y) {
    if ((x == 0 && y == 0) || x == n / 2 || y == n / 2) return;
    const double power = std::pow(x * x + y * y, -slope / 2);
    amplitude_[index] = std::sqrt(power);
    variance += y == 0 ? power : 2 * power;  // modes with a negative y are not stored
  });
  for (double& amplitude : amplitude_) amplitude /= std::sqrt(variance);
}

void PowerLaw::draw(std::uint64_t key, ModeGrid& modes) const {
  for_each_mode(n_, [&](std::size_t index, int x, int y) {
    const double scale = amplitude_[index];
    modes[index] = scale > 0 ? std::complex<float>(scale * random_mode(key, x, 0, y)) : 0;
  });
}

}  // namespace mrmf::fields
