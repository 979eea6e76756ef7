#include "kernels/cpu/sum_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/errors.hpp"

namespace mrmf::cpu {
namespace {

constexpr std::size_t kLanes = 16;

// A float32 plus this, and minus it, is a whole number: the nearest, to even in the middle. For sizes below 2^22.
constexpr float kToWhole = 12582912.0F;

inline float clipped(float x, float most) {
  x = x > -most ? x : -most;  // also of NaN
  return x < most ? x : most;
}

// A loop of its own for each, on values alone: bytes that are written might change anything that is referred to.
inline void round_levels(const float* __restrict x, std::size_t count, float factor, float most,
                         std::int8_t* __restrict levels) {
  for (std::size_t i = 0; i < count; ++i) {
    const float whole = (clipped(factor * x[i], most) + kToWhole) - kToWhole;
    levels[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(whole));
  }
}

inline void add_up(const std::int8_t* __restrict levels, std::size_t count, std::int32_t* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += levels[i];
}

inline void join_halves(const std::int8_t* __restrict levels, std::size_t count, std::uint8_t* __restrict packed) {
  const std::size_t bytes = half_bytes(count), both = count - bytes;
  for (std::size_t j = 0; j < both; ++j)
    packed[j] = static_cast<std::uint8_t>((levels[j] & 0x0F) | (static_cast<std::uint8_t>(levels[bytes + j]) << 4));
  for (std::size_t j = both; j < bytes; ++j) packed[j] = static_cast<std::uint8_t>(levels[j] & 0x0F);
}

inline void add_both_halves(const std::uint8_t* __restrict packed, std::size_t count, std::int32_t* __restrict sums) {
  const std::size_t bytes = half_bytes(count);
  for (std::size_t j = 0; j < bytes; ++j) sums[j] += static_cast<std::int8_t>(packed[j] << 4) >> 4;
  for (std::size_t j = 0; j < count - bytes; ++j) sums[bytes + j] += static_cast<std::int8_t>(packed[j]) >> 4;
}

inline void largest_sizes(const float* __restrict x, std::size_t count, float* __restrict most, float* __restrict odd) {
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float size = std::abs(x[i + lane]);
      most[lane] = size > most[lane] ? size : most[lane];
      odd[lane] += size * 0;  // NaN of what is not finite
    }
}

inline void add_one_sign(const std::uint8_t* __restrict positive, unsigned b, std::size_t count, std::int32_t weight,
                         std::int32_t* __restrict sums) {
  for (std::size_t j = 0; j < count; ++j) sums[j] += 2 * weight * (positive[j] >> b & 1) - weight;
}

inline void add_one_sign(const std::uint8_t* __restrict positive, const std::uint8_t* __restrict nonzero, unsigned b,
                         std::size_t count, std::int32_t weight, std::int32_t* __restrict sums) {
  for (std::size_t j = 0; j < count; ++j)
    sums[j] += (2 * weight * (positive[j] >> b & 1) - weight) * (nonzero[j] >> b & 1);
}

// Sums of a few thousand values in float32, lane by lane, so that their order is the same in vectors of any length.
inline void add_sizes(const float* __restrict x, std::size_t count, float* __restrict lanes) {
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += std::abs(x[i + lane]);
}

// log2 of the size of a number that is none of the denormal ones: the exponent and a polynomial of the mantissa.
inline float logarithm(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  const auto m = std::bit_cast<float>((bits & 0x007fffffU) | 0x3f800000U);  // 1 to 2
  const float mantissa =
      -2.7879262F + m * (5.0478554F + m * (-3.4898786F + m * (1.5894743F + m * (-0.40251339F + m * 0.043004958F))));
  return exponent + mantissa;
}

inline void add_logarithms(const float* __restrict x, std::size_t count, float* __restrict lanes,
                           std::int32_t* __restrict counts) {
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::int32_t some = x[i + lane] != 0 ? 1 : 0;
      lanes[lane] += static_cast<float>(some) * logarithm(x[i + lane]);
      counts[lane] += some;
    }
}

// The sum of part(from, count) over pieces short enough for sums in float32, in their order; OpenMP's threads share
// them. The last may not be whole lanes.
template <class Part>
auto sum_of_parts(std::size_t count, const Part& part) {
  using Sum = decltype(part(count, count));
  constexpr std::size_t kPiece = 4096, kFewest = 8;
  std::vector<Sum> sums((count + kPiece - 1) / kPiece);
#pragma omp parallel for schedule(static) if (sums.size() >= kFewest)
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = part(i * kPiece, std::min(kPiece, count - i * kPiece));
  return std::accumulate(sums.begin(), sums.end(), Sum{});
}

// Calls body(bit, first value, values) for the planes of bits.
template <class Body>
inline void for_bits(std::size_t count, const Body& body) {
  const std::size_t bytes = bit_bytes(count);
  for (unsigned b = 0; b < 8; ++b) {
    const std::size_t from = std::min(count, b * bytes);
    body(b, from, std::min(bytes, count - from));
  }
}

template <class Value>
inline void take_signs(const Value* __restrict x, std::size_t count, std::int8_t* __restrict signs) {
  for (std::size_t i = 0; i < count; ++i) signs[i] = static_cast<std::int8_t>((x[i] > 0 ? 1 : 0) - (x[i] < 0 ? 1 : 0));
}

// Packs eight signs into each of `bytes` bytes: sign j + b * bytes is bit b of byte j.
inline std::uint32_t pack_bits(const std::int8_t* __restrict signs, std::size_t bytes,
                               std::uint8_t* __restrict positive, std::uint8_t* __restrict nonzero) {
  std::uint8_t zeros = 0;
  for (std::size_t j = 0; j < bytes; ++j) {
    std::uint8_t above = 0, other = 0;
    for (unsigned b = 0; b < 8; ++b) {
      const std::int8_t sign = signs[j + b * bytes];
      above = static_cast<std::uint8_t>(above | (sign > 0 ? 1U << b : 0U));
      other = static_cast<std::uint8_t>(other | (sign != 0 ? 1U << b : 0U));
    }
    positive[j] = above, nonzero[j] = other;
    zeros = static_cast<std::uint8_t>(zeros | (other ^ 0xFFU));
  }
  return zeros;
}

template <class Value>
void pack(const Value* x, std::size_t count, std::uint8_t* positive, std::uint8_t* nonzero, bool& any_zero) {
  MRMF_CHECK(count <= kMostSigns, "signs are packed a few at a time");
  std::int8_t buffer[kMostSigns + 8];
  std::int8_t* const signs = buffer;
  const std::size_t bytes = bit_bytes(count);
  vectorised([=] { take_signs(x, count, signs); });
  std::fill(signs + count, signs + 8 * bytes, std::int8_t{1});
  std::uint32_t zeros = 0;
  std::uint32_t* const found = &zeros;
  vectorised([=] { *found = pack_bits(signs, bytes, positive, nonzero); });
  any_zero = zeros != 0;
}

}  // namespace

double sum_of_sizes(const float* x, std::size_t count) {
  return sum_of_parts(count, [&](std::size_t first, std::size_t part) {
    double sum = 0;
    float lanes[kLanes] = {};
    vectorised([&] { add_sizes(x + first, part, lanes); });
    for (std::size_t i = first + part / kLanes * kLanes; i < first + part; ++i) lanes[0] += std::abs(x[i]);
    for (const float lane : lanes) sum += lane;
    return sum;
  });
}

SizeLogarithms size_logarithms(const float* x, std::size_t count) {
  return sum_of_parts(count, [&](std::size_t first, std::size_t part) {
    SizeLogarithms result;
    float lanes[kLanes] = {};
    std::int32_t counts[kLanes] = {};
    vectorised([&] { add_logarithms(x + first, part, lanes, counts); });
    for (std::size_t i = first + part / kLanes * kLanes; i < first + part; ++i)
      if (x[i] != 0) lanes[0] += logarithm(x[i]), ++counts[0];
    for (const float lane : lanes) result.sum += lane;
    for (const std::int32_t some : counts) result.count += static_cast<std::size_t>(some);
    return result;
  });
}

bool finite(const float* x, std::size_t count) {
  std::uint32_t odd = 0;
  vectorised([&] {
    for (std::size_t i = 0; i < count; ++i)
      odd |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000U) == 0x7f800000U ? 1U : 0U;
  });
  return odd == 0;
}

void multiply(float* x, std::size_t count, float factor) {
  vectorised([&] {
    for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
  });
}

void to_levels(const float* x, std::size_t count, float factor, int most, std::int8_t* levels) {
  vectorised([=] { round_levels(x, count, factor, static_cast<float>(most), levels); });
}

void add_levels(const std::int8_t* levels, std::size_t count, std::int32_t* sums) {
  vectorised([=] { add_up(levels, count, sums); });
}

void pack_halves(const std::int8_t* levels, std::size_t count, std::uint8_t* packed) {
  vectorised([=] { join_halves(levels, count, packed); });
}

void add_halves(const std::uint8_t* packed, std::size_t count, std::int32_t* sums) {
  vectorised([=] { add_both_halves(packed, count, sums); });
}

void pack_signs(const float* x, std::size_t count, std::uint8_t* positive, std::uint8_t* nonzero, bool& any_zero) {
  pack(x, count, positive, nonzero, any_zero);
}

void pack_signs(const std::int32_t* x, std::size_t count, std::uint8_t* positive, std::uint8_t* nonzero,
                bool& any_zero) {
  pack(x, count, positive, nonzero, any_zero);
}

void add_signs(const std::uint8_t* positive, const std::uint8_t* nonzero, std::size_t count, std::int32_t weight,
               std::int32_t* sums) {
  vectorised([=] {
    for_bits(count, [=](unsigned b, std::size_t first, std::size_t values) {
      nonzero == nullptr ? add_one_sign(positive, b, values, weight, sums + first)
                         : add_one_sign(positive, nonzero, b, values, weight, sums + first);
    });
  });
}

void unpack_signs(const std::uint8_t* positive, const std::uint8_t* nonzero, std::size_t count, float* signs) {
  vectorised([&] {
    for_bits(count, [&](unsigned b, std::size_t first, std::size_t values) {
      const std::uint8_t* __restrict up = positive;
      float* __restrict to = signs + first;
      for (std::size_t j = 0; j < values; ++j) to[j] = (up[j] >> b & 1) != 0 ? 1.0F : -1.0F;
      if (nonzero == nullptr) return;
      const std::uint8_t* __restrict some = nonzero;
      for (std::size_t j = 0; j < values; ++j) to[j] = (some[j] >> b & 1) != 0 ? to[j] : 0.0F;
    });
  });
}

void to_bf16(const float* x, std::size_t count, std::uint16_t* codes) {
  vectorised([=] {
    const float* __restrict from = x;
    std::uint16_t* __restrict to = codes;
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(from[i]);
      const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
      const std::uint32_t quiet = bits >> 16 | 0x40U;  // a NaN stays one
      to[i] = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
    }
  });
}

void from_bf16(const std::uint16_t* codes, std::size_t count, float* x) {
  vectorised([=] {
    const std::uint16_t* __restrict from = codes;
    float* __restrict to = x;
    for (std::size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(std::uint32_t{from[i]} << 16);
  });
}

float to_scaled(const float* x, std::size_t count, std::int8_t* codes) {
  float most[kLanes] = {}, zero[kLanes] = {};
  float *const sizes = most, *const zeros = zero;
  vectorised([=] { largest_sizes(x, count, sizes, zeros); });
  for (std::size_t i = count / kLanes * kLanes; i < count; ++i)
    most[0] = std::max(most[0], std::abs(x[i])), zero[0] += x[i] * 0;
  float largest = 0, odd = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, most[lane]), odd += zero[lane];
  float scale = largest / 127 + odd;                         // NaN where a value is not finite
  if (scale < std::numeric_limits<float>::min()) scale = 0;  // so small that its inverse is infinite
  to_levels(x, count, scale > 0 ? 1 / scale : 0, 127, codes);
  return scale;
}

void from_scaled(const std::int8_t* codes, std::size_t count, float scale, float* x) {
  vectorised([=] {
    const std::int8_t* __restrict from = codes;
    float* __restrict to = x;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale;
  });
}

void add(const float* x, std::size_t count, float* y) {
  vectorised([&] {
    for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
  });
}

void subtract(const float* x, std::size_t count, float* y) {
  vectorised([&] {
    for (std::size_t i = 0; i < count; ++i) y[i] -= x[i];
  });
}

}  // namespace mrmf::cpu
