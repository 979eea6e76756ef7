// Loops that make codes of values, and values of codes, as ranks send them in place of float32: signs as bits, levels
// in a byte or half of one, bfloat16, and integers with a scale (src/training/gradient_compression.hpp). On the host.
//
// Bits and half bytes lie in planes, so that the loops are vectors: bit b of byte j is of value j + b * bytes, where
// `bytes` is what all values take. Values that are not finite have codes of no meaning; finite() tells of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mrmf::cpu {

/// Sum of the values' sizes, in double and in one order for all instruction sets and numbers of threads; not finite if
/// a value is not.
double sum_of_sizes(const float* x, std::size_t count);
/// Sum of the logarithms of the values' sizes, and how many they are, leaving out zeros. Base 2, to 1e-4.
struct SizeLogarithms {
  double sum = 0;
  std::size_t count = 0;
  SizeLogarithms operator+(const SizeLogarithms& other) const { return {sum + other.sum, count + other.count}; }
};
SizeLogarithms size_logarithms(const float* x, std::size_t count);
/// Whether all values are finite.
bool finite(const float* x, std::size_t count);
void multiply(float* x, std::size_t count, float factor);

/// Rounds factor * x to whole numbers between -most and most.
void to_levels(const float* x, std::size_t count, float factor, int most, std::int8_t* levels);
void add_levels(const std::int8_t* levels, std::size_t count, std::int32_t* sums);

/// Levels between -7 and 7, two a byte.
constexpr std::size_t half_bytes(std::size_t count) { return (count + 1) / 2; }
void pack_halves(const std::int8_t* levels, std::size_t count, std::uint8_t* packed);
void add_halves(const std::uint8_t* packed, std::size_t count, std::int32_t* sums);

/// A plane of bits.
constexpr std::size_t bit_bytes(std::size_t count) { return (count + 7) / 8; }
/// Which values are above zero, and which are none: `any_zero` tells whether there is one. Bits behind the last value
/// are ones in both planes. At most kMostSigns values.
constexpr std::size_t kMostSigns = 8192;
void pack_signs(const float* x, std::size_t count, std::uint8_t* positive, std::uint8_t* nonzero, bool& any_zero);
void pack_signs(const std::int32_t* x, std::size_t count, std::uint8_t* positive, std::uint8_t* nonzero,
                bool& any_zero);
/// Adds the weight, with the sign of each value; zeros where there is a plane that says so.
void add_signs(const std::uint8_t* positive, const std::uint8_t* nonzero, std::size_t count, std::int32_t weight,
               std::int32_t* sums);
/// -1, 0 or 1.
void unpack_signs(const std::uint8_t* positive, const std::uint8_t* nonzero, std::size_t count, float* signs);

/// Rounded to the nearest, to even in the middle.
void to_bf16(const float* x, std::size_t count, std::uint16_t* codes);
void from_bf16(const std::uint16_t* codes, std::size_t count, float* x);

/// Integers between -127 and 127 times a scale, which is returned: the largest size / 127, or NaN.
float to_scaled(const float* x, std::size_t count, std::int8_t* codes);
void from_scaled(const std::int8_t* codes, std::size_t count, float scale, float* x);

/// y += x; y -= x
void add(const float* x, std::size_t count, float* y);
void subtract(const float* x, std::size_t count, float* y);

}  // namespace mrmf::cpu
