#include "src/simulators/cosmology/random_field.hpp"

#include <cmath>
#include <numbers>

#include "kernels/random.hpp"

namespace mrmf::cosmology {
namespace {

/// A complex Gaussian number with mean square 1.
std::complex<double> gaussian(std::uint64_t key, int x, int y, int z) {
  const Random4 r =
      philox(key, {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z), 0});
  const auto uniform = [](std::uint32_t high, std::uint32_t low) {  // in (0, 1)
    return (static_cast<double>((std::uint64_t{high} << 20) | (low >> 12)) + 0.5) * 0x1.0p-52;
  };
  return std::polar(std::sqrt(-std::log(uniform(r[0], r[1]))), 2 * std::numbers::pi * uniform(r[2], r[3]));
}

/// Whether this one of the pair k, -k is drawn; the other is its conjugate. Decides where both are stored: at z = 0.
bool drawn(int x, int y, int z) { return z > 0 || x > 0 || (x == 0 && y > 0); }

/// sqrt(power / volume) for every squared frequency that a grid has.
std::vector<double> amplitudes(const LinearPower& power, double side, int n) {
  const int last = n / 2 - 1;
  std::vector<double> values(static_cast<std::size_t>(3 * last * last) + 1, 0.0);
  for (std::size_t square = 1; square < values.size(); ++square) {
    const double k = 2 * std::numbers::pi / side * std::sqrt(static_cast<double>(square));
    values[square] = std::sqrt(power(k) / (side * side * side));
  }
  return values;
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
    modes[index] =
        std::complex<float>(scale * (drawn(x, y, z) ? gaussian(key, x, y, z) : std::conj(gaussian(key, -x, -y, -z))));
  });
}

}  // namespace mrmf::cosmology
