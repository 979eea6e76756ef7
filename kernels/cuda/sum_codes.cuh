// The codes of a group of neighbouring values: as numbers of fewer bits, as levels, and as signs.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/sum_codes.hpp"

namespace mrmf::cuda {

MRMF_HD inline bool is_finite(float x) { return x - x == 0; }
MRMF_HD inline float nan_value() { return std::bit_cast<float>(0x7FC00000U); }
MRMF_HD inline float size_of(float x) { return x < 0 ? -x : x; }
MRMF_HD inline int rounded(float x, float most) {
  const float whole = ::rintf(x);
  return static_cast<int>(whole > most ? most : whole < -most ? -most : whole);
}

// Each code writes the values value(0), value(1), ... of a group, the g-th of a piece of n values, and reads one.

struct Bf16Code {
  static constexpr std::uint32_t group = 32;

  template <class Value>
  MRMF_HD static void write(const Value& value, std::byte* piece, std::size_t, std::size_t g) {
    auto* const to = reinterpret_cast<std::uint32_t*>(piece) + g * group / 2;
    for (std::uint32_t i = 0; i < group; i += 2) to[i / 2] = pack_bf16(value(i), value(i + 1));
  }
  MRMF_HD static float read(const std::byte* piece, std::size_t, std::size_t g, std::uint32_t i) {
    return to_float(reinterpret_cast<const Bf16*>(piece)[g * group + i]);
  }
};

/// Integers between -127 and 127, in front of which are the scales of all groups; NaN where a value is not finite.
struct ScaledCode {
  static constexpr std::uint32_t group = CodeLayout::kUnit;

  template <class Value>
  MRMF_HD static void write(const Value& value, std::byte* piece, std::size_t n, std::size_t g) {
    float largest = 0, odd = 0;
    for (std::uint32_t i = 0; i < group; ++i) {
      const float x = value(i);
      largest = size_of(x) > largest ? size_of(x) : largest;
      odd += x * 0;
    }
    float scale = largest / 127 + odd;
    if (scale < std::numeric_limits<float>::min()) scale = 0;  // so small that its inverse is infinite
    reinterpret_cast<float*>(piece)[g] = scale;
    const float factor = scale > 0 ? 1 / scale : 0;
    auto* const to = reinterpret_cast<std::int8_t*>(piece + n / group * sizeof(float)) + g * group;
    for (std::uint32_t i = 0; i < group; ++i)
      to[i] = is_finite(scale) ? static_cast<std::int8_t>(rounded(factor * value(i), 127)) : std::int8_t{0};
  }
  MRMF_HD static float read(const std::byte* piece, std::size_t n, std::size_t g, std::uint32_t i) {
    const auto* const from = reinterpret_cast<const std::int8_t*>(piece + n / group * sizeof(float));
    return static_cast<float>(from[g * group + i]) * reinterpret_cast<const float*>(piece)[g];
  }
};

/// One bit says whether a value is above zero and one whether it is none; above zero and none: it is not finite.
struct Signs {
  std::uint32_t positive = 0, nonzero = 0;

  MRMF_HD void set(std::uint32_t i, float x) {
    const std::uint32_t bit = std::uint32_t{1} << i;
    if (x > 0 || !is_finite(x)) positive |= bit;
    if (x != 0 && is_finite(x)) nonzero |= bit;
  }
  MRMF_HD float of(std::uint32_t i) const {
    const bool plus = (positive >> i & 1) != 0;
    if ((nonzero >> i & 1) == 0) return plus ? nan_value() : 0.0F;
    return plus ? 1.0F : -1.0F;
  }
  MRMF_HD void write(std::byte* planes, std::size_t n, std::size_t g) const {
    auto* const words = reinterpret_cast<std::uint32_t*>(planes);
    words[g] = positive, words[n / 32 + g] = nonzero;
  }
  MRMF_HD static Signs read(const std::byte* planes, std::size_t n, std::size_t g) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(planes);
    return {words[g], words[n / 32 + g]};
  }
};

/// Levels of a byte, or two a byte, in words of four or eight.
template <int bits>
struct LevelCode {
  static constexpr std::uint32_t group = 32, each = 32 / bits, mask = (1U << bits) - 1;
  static constexpr int not_finite = -(1 << (bits - 1));

  MRMF_HD static int read(const std::byte* piece, std::size_t g, std::uint32_t i) {
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(piece)[(g * group + i) / each];
    const std::uint32_t field = word >> (bits * (i % each)) & mask;
    return static_cast<int>(field ^ (1U << (bits - 1))) - (1 << (bits - 1));
  }
};

}  // namespace mrmf::cuda
