#include "src/simulators/cosmology/initial_conditions.hpp"

#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "mpi/grid_exchange.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::uint64_t kLabelStream = 0x6C6162656C;  // apart from the stream of the sample's field

constexpr double kTemperature = 2.7255 / 2.7;  // that of the microwave background, in units of 2.7 K

double square(double x) { return x * x; }

// (19)-(20), without scaling the wavenumber.
double pressureless(double q, double alpha, double beta) {
  const double c = 14.2 / alpha + 386 / (1 + 69.9 * std::pow(q, 1.08));
  const double l = std::log(std::numbers::e + 1.8 * beta * q);
  return l / (l + c * q * q);
}

// (15)
double g(double y) {
  const double root = std::sqrt(1 + y);
  return y * (-6 * root + (2 + 3 * y) * std::log((root + 1) / (root - 1)));
}

// (4)
double drag_redshift(double m, double b) {
  const double b1 = 0.313 * std::pow(m, -0.419) * (1 + 0.607 * std::pow(m, 0.674));
  const double b2 = 0.238 * std::pow(m, 0.223);
  return 1291 * std::pow(m, 0.251) / (1 + 0.659 * std::pow(m, 0.828)) * (1 + b1 * std::pow(b, b2));
}

double top_hat(double x) { return x < 1e-3 ? 1 - x * x / 10 : 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x); }

}  // namespace

std::array<float, kLabels> draw_labels(std::uint64_t seed, std::int64_t sample) {
  Rng rng(mix(seed, static_cast<std::uint64_t>(sample), kLabelStream));
  std::array<float, kLabels> u{};
  for (float& x : u) x = static_cast<float>(rng.next() >> 8) * 0x1.0p-23F - 1.0F;
  return u;
}

Cosmology cosmology_of(const std::array<float, kLabels>& labels) {
  const Cosmology middle;
  const auto about = [&](double value, std::size_t i) { return value * (1 + 0.1 * static_cast<double>(labels[i])); };
  return {about(middle.omega_m, 0), about(middle.sigma_8, 1), about(middle.n_s, 2), about(middle.hubble, 3),
          middle.omega_b};
}

Growth::Growth(double omega_m) : omega_m_(omega_m), scale_(1) { scale_ = 1 / unscaled(1); }

double Growth::expansion(double a) const { return std::sqrt(omega_m_ / (a * a * a) + 1 - omega_m_); }

// Heath's integral E(a) \int da' / (a' E(a'))^3. With a' = t^2 its integrand is smooth at 0.
double Growth::unscaled(double a) const {
  if (a <= 0) return 0;
  const double integral = integrate(0, std::sqrt(a), 256, [&](double t) {
    const double x = t * t;
    return 2 * t * std::pow(x / (omega_m_ + (1 - omega_m_) * x * x * x), 1.5);
  });
  return expansion(a) * integral;
}

double Growth::linear(double a) const { return scale_ * unscaled(a); }

double Growth::second(double a) const {
  const double d = linear(a);
  return d * d * std::pow(omega_m_ + (1 - omega_m_) * a * a * a, 1.0 / 143);
}

Transfer::Transfer(const Cosmology& cosmology)
    : h_(cosmology.h()), baryon_fraction_(cosmology.omega_b / cosmology.omega_m) {
  const double m = cosmology.omega_m * h_ * h_, b = cosmology.omega_b * h_ * h_;
  const double z_equality = 2.50e4 * m * std::pow(kTemperature, -4);  // (2)
  k_equality_ = 7.46e-2 * m / square(kTemperature);                   // (3)
  const double z_drag = drag_redshift(m, b);
  const auto ratio = [&](double z) { return 31.5 * b * std::pow(kTemperature, -4) * (1000 / z); };  // (5)
  const double r_drag = ratio(z_drag), r_equality = ratio(z_equality);
  sound_horizon_ = 2 / (3 * k_equality_) * std::sqrt(6 / r_equality) *
                   std::log((std::sqrt(1 + r_drag) + std::sqrt(r_drag + r_equality)) / (1 + std::sqrt(r_equality)));
  k_silk_ = 1.6 * std::pow(b, 0.52) * std::pow(m, 0.73) * (1 + std::pow(10.4 * m, -0.95));  // (7)

  const double a1 = std::pow(46.9 * m, 0.670) * (1 + std::pow(32.1 * m, -0.532));  // (11)
  const double a2 = std::pow(12.0 * m, 0.424) * (1 + std::pow(45.0 * m, -0.582));
  alpha_c_ = std::pow(a1, -baryon_fraction_) * std::pow(a2, -baryon_fraction_ * baryon_fraction_ * baryon_fraction_);
  const double b1 = 0.944 / (1 + std::pow(458 * m, -0.708)), b2 = std::pow(0.395 * m, -0.0266);  // (12)
  beta_c_ = 1 / (1 + b1 * (std::pow(1 - baryon_fraction_, b2) - 1));

  alpha_b_ =
      2.07 * k_equality_ * sound_horizon_ * std::pow(1 + r_drag, -0.75) * g((1 + z_equality) / (1 + z_drag));  // (14)
  beta_b_ = 0.5 + baryon_fraction_ + (3 - 2 * baryon_fraction_) * std::sqrt(square(17.2 * m) + 1);             // (24)
  node_ = 8.41 * std::pow(m, 0.435);                                                                           // (23)
}

double Transfer::dark_matter(double k, double q) const {
  const double f = 1 / (1 + std::pow(k * sound_horizon_ / 5.4, 4));  // (18)
  return f * pressureless(q, 1, beta_c_) + (1 - f) * pressureless(q, alpha_c_, beta_c_);
}

double Transfer::baryons(double k, double q) const {
  const double ks = k * sound_horizon_;
  const double shifted = ks / std::cbrt(1 + std::pow(node_ / ks, 3));  // (22)
  const double wave = std::sin(shifted) / shifted;
  return wave * (pressureless(q, 1, 1) / (1 + square(ks / 5.2)) +
                 alpha_b_ / (1 + std::pow(beta_b_ / ks, 3)) * std::exp(-std::pow(k / k_silk_, 1.4)));  // (21)
}

double Transfer::operator()(double k) const {
  const double per_mpc = k * h_;
  const double q = per_mpc / (13.41 * k_equality_);                                                  // (10)
  return baryon_fraction_ * baryons(per_mpc, q) + (1 - baryon_fraction_) * dark_matter(per_mpc, q);  // (16)
}

LinearPower::LinearPower(const Cosmology& cosmology) : transfer_(cosmology), slope_(cosmology.n_s) {
  const double ratio = cosmology.sigma_8 / sigma(8);
  amplitude_ = ratio * ratio;
}

double LinearPower::operator()(double k) const {
  const double t = transfer_(k);
  return amplitude_ * std::pow(k, slope_) * t * t;
}

double LinearPower::sigma(double radius) const {
  // Integrates over ln k. Beyond the ends the integrand is below 1e-7 of its peak for radii of a few Mpc/h.
  const double variance = integrate(std::log(1e-5), std::log(50 / radius), 4000, [&](double log_k) {
    const double k = std::exp(log_k), w = top_hat(k * radius);
    return k * k * k * (*this)(k)*w * w;
  });
  return std::sqrt(variance / (2 * std::numbers::pi * std::numbers::pi));
}

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

namespace {

/// sqrt(power / volume) for every squared frequency on the grid.
std::vector<double> amplitudes(const LinearPower& power, double side, int n) {
  const int last = n / 2 - 1;
  std::vector<double> values(static_cast<std::size_t>(3 * last * last) + 1, 0.0);
  for (std::size_t square = 1; square < values.size(); ++square) {
    const double k = 2 * std::numbers::pi / side * std::sqrt(static_cast<double>(square));
    values[square] = std::sqrt(power(k) / (side * side * side));
  }
  return values;
}

/// result = k_i k_j / k^2 source: the second derivatives of the potential whose Laplacian is `source`.
void tide(const ModeGrid& source, const Slab& slab, int i, int j, ModeGrid& result) {
  for_each_mode(slab, [&](std::size_t index, int x, int y, int z) {
    const std::array<int, 3> k = {x, y, z};
    const int square = x * x + y * y + z * z;
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    result[index] = square == 0 ? 0 : source[index] * (static_cast<float>(k[a] * k[b]) / static_cast<float>(square));
  });
}

/// The sum over pairs of axes of phi_ii phi_jj - phi_ij^2, in out.second[0]. Uses all of `out` as scratch.
RealGrid& second_source(const Fft& fft, const ModeGrid& contrast, ModeGrid& scratch, Displacements& out) {
  for (int axis = 0; axis < 3; ++axis) {
    tide(contrast, fft.slab(), axis, axis, scratch);
    fft.to_field(scratch, out.first[static_cast<std::size_t>(axis)]);
  }
  const auto& [xx, yy, zz] = out.first;
  RealGrid& source = out.second[0];
  for (std::size_t p = 0; p < source.size(); ++p) source[p] = xx[p] * (yy[p] + zz[p]) + yy[p] * zz[p];
  for (int axis = 0; axis < 3; ++axis) {
    RealGrid& mixed = out.second[1];
    tide(contrast, fft.slab(), axis, (axis + 1) % 3, scratch);
    fft.to_field(scratch, mixed);
    for (std::size_t p = 0; p < source.size(); ++p) source[p] -= mixed[p] * mixed[p];
  }
  return source;
}

}  // namespace

void draw_modes(const LinearPower& power, double side, std::uint64_t key, const Slab& slab, ModeGrid& modes) {
  const int n = slab.n;
  const std::vector<double> amplitude = amplitudes(power, side, n);
  for_each_mode(slab, [&](std::size_t index, int x, int y, int z) {
    const bool highest = x == n / 2 || y == n / 2 || z == n / 2;
    if (highest || (x == 0 && y == 0 && z == 0)) {
      modes[index] = 0;
      return;
    }
    const double scale = amplitude[static_cast<std::size_t>(x * x + y * y + z * z)];
    modes[index] = std::complex<float>(scale * random_mode(key, x, y, z));
  });
}

std::vector<float> exact_slopes(int n) {
  std::vector<float> slopes(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i)
    slopes[static_cast<std::size_t>(i)] = static_cast<float>(i == n / 2 ? 0 : frequency(i, n));
  return slopes;
}

std::vector<float> difference_slopes(int n) {
  std::vector<float> slopes = exact_slopes(n);
  for (float& slope : slopes) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(slope) / n;
    slope = static_cast<float>((8 * std::sin(angle) - std::sin(2 * angle)) / 6 * n / (2 * std::numbers::pi));
  }
  return slopes;
}

void attraction(const ModeGrid& source, const Slab& slab, const Attraction& what, ModeGrid& result) {
  const auto& [axis, factor, slopes] = what;
  const int n = slab.n;
  // k / k^2 is frequency / frequency^2 / (2 pi / n).
  const float scale = factor * static_cast<float>(n / (2 * std::numbers::pi));
  for_each_mode(slab, [&](std::size_t index, int x, int y, int z) {
    const int along = axis == 0 ? x : axis == 1 ? y : z;
    const int square = x * x + y * y + z * z;
    const float slope = slopes[static_cast<std::size_t>(along < 0 ? along + n : along)];
    const float f = square == 0 ? 0 : scale * slope / static_cast<float>(square);
    result[index] = {-f * source[index].imag(), f * source[index].real()};
  });
}

void displace(const Fft& fft, const ModeGrid& contrast, ModeGrid& scratch, Displacements& out) {
  const std::vector<float> slopes = exact_slopes(fft.size());
  ModeGrid source(fft.slab().modes());
  fft.to_modes(second_source(fft, contrast, scratch, out), source);
  const float second = 3.0F / 7.0F / static_cast<float>(fft.slab().cube());
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    attraction(contrast, fft.slab(), {axis, 1, slopes}, scratch);
    fft.to_field(scratch, out.first[a]);
    attraction(source, fft.slab(), {axis, second, slopes}, scratch);
    fft.to_field(scratch, out.second[a]);
  }
}

}  // namespace mrmf::cosmology
