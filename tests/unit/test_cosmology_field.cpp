// The random field that a universe starts from.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "src/simulators/cosmology/initial_conditions.hpp"

using namespace mrmf::cosmology;
using doctest::Approx;

namespace {

ModeGrid drawn_modes(const LinearPower& power, double side, std::uint64_t key, int n) {
  ModeGrid modes(static_cast<std::size_t>(n * n * (n / 2 + 1)));
  draw_modes(power, side, key, Slab{n}, modes);
  return modes;
}

std::size_t mode_at(int n, int x, int y, int z) {
  const auto wrap = [n](int k) { return k < 0 ? k + n : k; };
  return static_cast<std::size_t>((wrap(y) * n + wrap(x)) * (n / 2 + 1) + z);
}

}  // namespace

TEST_CASE("cosmology: the field's modes are those of a real field") {
  constexpr int n = 16;
  const ModeGrid modes = drawn_modes(LinearPower(Cosmology{}), 200, 7, n);
  CHECK(modes[0] == std::complex<float>(0));
  int pairs = 0;
  for_each_mode(Slab{n}, [&](std::size_t index, int x, int y, int z) {
    if (x == n / 2 || y == n / 2 || z == n / 2) {
      CHECK(modes[index] == std::complex<float>(0));
    } else if (z == 0) {
      CHECK(modes[index] == std::conj(modes[mode_at(n, -x, -y, 0)]));
      ++pairs;
    }
    if (index > 0 && x != n / 2 && y != n / 2 && z != n / 2) CHECK(std::abs(modes[index]) > 0);
  });
  CHECK(pairs == 15 * 15);
  // So nothing is lost on the way to points and back.
  const Fft fft(n);
  ModeGrid copy = modes, back(fft.slab().modes());
  RealGrid field(fft.slab().points());
  fft.to_field(copy, field);
  fft.to_modes(field, back);
  for (std::size_t i = 0; i < modes.size(); ++i)  // float32 sums of 16^3 terms of order 0.1
    CHECK(std::abs(back[i] / static_cast<float>(fft.slab().points()) - modes[i]) < 1e-6F);
}

TEST_CASE("cosmology: grids of any size share their modes") {
  const LinearPower power(Cosmology{});
  const ModeGrid coarse = drawn_modes(power, 300, 3, 8), fine = drawn_modes(power, 300, 3, 32);
  for_each_mode(Slab{8}, [&](std::size_t index, int x, int y, int z) {
    if (x < 4 && y < 4 && z < 4) CHECK(coarse[index] == fine[mode_at(32, x, y, z)]);
  });
  CHECK(coarse != drawn_modes(power, 300, 4, 8));
}

TEST_CASE("cosmology: slabs have their part of the whole's modes") {
  constexpr int n = 16;
  const LinearPower power(Cosmology{});
  const ModeGrid whole = drawn_modes(power, 200, 7, n);
  ModeGrid joined;
  for (int rank = 0; rank < 4; ++rank) {
    const Slab slab{n, rank, 4};
    ModeGrid part(slab.modes());
    draw_modes(power, 200, 7, slab, part);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  CHECK(joined == whole);
}

TEST_CASE("cosmology: the transform's sums are those of its definition") {
  constexpr int n = 8;
  const Fft fft(n);
  RealGrid field(fft.slab().points());
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<float>(i * i % 97) / 97 - 0.5F;
  ModeGrid modes(fft.slab().modes());
  fft.to_modes(field, modes);
  for_each_mode(Slab{n}, [&](std::size_t index, int kx, int ky, int kz) {
    std::complex<double> sum = 0;
    std::size_t p = 0;
    for (int x = 0; x < n; ++x)
      for (int y = 0; y < n; ++y)
        for (int z = 0; z < n; ++z)
          sum +=
              static_cast<double>(field[p++]) * std::polar(1.0, -2 * std::numbers::pi * (kx * x + ky * y + kz * z) / n);
    CHECK(std::abs(std::complex<double>(modes[index]) - sum) < 2e-5);  // 512 terms below 1 in float32
  });
}

TEST_CASE("cosmology: the field's power is the linear power it was drawn from") {
  constexpr int n = 64, kBins = 16;
  constexpr double side = 512;
  const LinearPower power(Cosmology{});
  const Fft fft(n);
  ModeGrid drawn = drawn_modes(power, side, 11, n), modes(fft.slab().modes());
  RealGrid field(fft.slab().points());
  fft.to_field(drawn, field);
  fft.to_modes(field, modes);  // measured from the field itself
  std::array<double, kBins> sum{}, count{};
  double cross = 0, all = 0;
  for_each_mode(Slab{n}, [&](std::size_t index, int x, int y, int z) {
    const double frequency = std::sqrt(x * x + y * y + z * z);
    const auto bin = static_cast<std::size_t>(frequency / (n / 2) * kBins);
    if (index == 0 || bin >= kBins) return;
    const double expected = power(2 * std::numbers::pi * frequency / side) / (side * side * side);
    const std::complex<double> mode = std::complex<double>(modes[index]) / static_cast<double>(fft.slab().points());
    const double weight = z == 0 ? 0.5 : 1;  // at z = 0 both of a pair are stored
    sum[bin] += weight * std::norm(mode) / expected;
    count[bin] += weight;
    cross += weight * (mode * mode).real() / expected;  // phases are uniform: 0 on average
    all += weight;
  });
  // Powers are exponentially distributed: a bin's mean has standard error 1 / sqrt(count).
  double chi_squared = 0;
  for (std::size_t i = 0; i < kBins; ++i) {
    const double deviation = (sum[i] / count[i] - 1) * std::sqrt(count[i]);
    CHECK(std::abs(deviation) < 4);
    chi_squared += deviation * deviation;
  }
  CHECK(chi_squared > 3.9);  // 0.1 % and 99.9 % of chi-squared with 16 degrees of freedom
  CHECK(chi_squared < 39.3);
  CHECK(std::abs(cross / all) < 4 / std::sqrt(all));
}

TEST_CASE("cosmology: sigma_8 is recovered from the smoothed field") {
  constexpr int n = 64;
  constexpr double side = 400;
  const Cosmology cosmology;
  const LinearPower power(cosmology);
  const Fft fft(n);
  RealGrid field(fft.slab().points());
  double variance = 0;
  constexpr int kFields = 4;
  for (std::uint64_t key = 0; key < kFields; ++key) {
    ModeGrid modes = drawn_modes(power, side, key, n);
    for_each_mode(Slab{n}, [&](std::size_t index, int x, int y, int z) {
      const double kr = 2 * std::numbers::pi / side * std::sqrt(x * x + y * y + z * z) * 8;
      if (index > 0) modes[index] *= static_cast<float>(3 * (std::sin(kr) - kr * std::cos(kr)) / (kr * kr * kr));
    });
    fft.to_field(modes, field);
    for (const float contrast : field) variance += static_cast<double>(contrast) * static_cast<double>(contrast);
  }
  variance /= kFields * static_cast<double>(fft.slab().points());
  // Of the variance, 0.5 % is in waves longer than the box and less in ones shorter than two points; four fields
  // scatter by 1.2 % of sigma.
  CHECK(std::sqrt(variance) == Approx(cosmology.sigma_8).epsilon(0.04));
}
