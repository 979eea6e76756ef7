// Square periodic grids: Fourier transforms by FFTW in single precision, and random fields. Points (n, n) and modes
// (n, n/2 + 1) are stored x slowest, y fastest. Only plane.cpp sees fftw3.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/simulators/modes.hpp"

namespace mrmf::fields {

constexpr std::size_t plane_points(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n); }
constexpr std::size_t plane_modes(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n / 2 + 1); }

/// Calls f(index, x, y) with the signed frequencies of every stored mode.
template <typename Function>
void for_each_mode(int n, Function&& f) {
  std::size_t index = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= n / 2; ++j) f(index++, frequency(i, n), j);
}

/// Only one thread at a time may make one; any number may use it.
class PlaneFft {
 public:
  explicit PlaneFft(int n);
  ~PlaneFft();
  PlaneFft(const PlaneFft&) = delete;
  PlaneFft& operator=(const PlaneFft&) = delete;

  /// field = sum over all modes of mode exp(ikx), without a factor. Destroys the modes.
  void to_field(ModeGrid& modes, RealGrid& field) const;

 private:
  struct Plan;
  int n_;
  std::unique_ptr<Plan> plan_;
};

/// Gaussian random fields with mean 0, expected variance 1 and power proportional to frequency^-slope.
class PowerLaw {
 public:
  /// `n` is even.
  PowerLaw(int n, double slope);
  /// The modes of the field that belongs to `key`. Those at the grid's highest frequency have no sign and are 0.
  void draw(std::uint64_t key, ModeGrid& modes) const;

 private:
  int n_;
  std::vector<double> amplitude_;  // per mode
};

}  // namespace mrmf::fields
