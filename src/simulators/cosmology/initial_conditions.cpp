#include "src/simulators/cosmology/initial_conditions.hpp"

#include <cmath>
#include <numbers>

namespace mrmf::cosmology {
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
