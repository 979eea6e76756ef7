#include "src/simulators/modes.hpp"

#include <cmath>
#include <numbers>

#include "kernels/random.hpp"

namespace mrmf {
namespace {

std::complex<double> gaussian(std::uint64_t key, int x, int y, int z) {
  const Random4 r =
      philox(key, {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z), 0});
  const auto uniform = [](std::uint32_t high, std::uint32_t low) {  // in (0, 1)
    return (static_cast<double>((std::uint64_t{high} << 20) | (low >> 12)) + 0.5) * 0x1.0p-52;
  };
  return std::polar(std::sqrt(-std::log(uniform(r[0], r[1]))), 2 * std::numbers::pi * uniform(r[2], r[3]));
}

/// Whether this one of the pair k, -k is drawn; the other is its conjugate. Matters where both are stored: at z = 0.
bool drawn(int x, int y, int z) { return z > 0 || x > 0 || (x == 0 && y > 0); }

}  // namespace

std::complex<double> random_mode(std::uint64_t key, int x, int y, int z) {
  return drawn(x, y, z) ? gaussian(key, x, y, z) : std::conj(gaussian(key, -x, -y, -z));
}

}  // namespace mrmf
