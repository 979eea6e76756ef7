// The fused kernel that multiplies in bf16, for processors that have AVX2 alone: the same source as for AVX512-BF16,
// with plain loops where vector_kernels_avx512bf16.cpp has its instructions. Slow.
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "tests/unit/support/instructions_sixteen_lanes.inl"

#define FUSED_BF16

namespace mrmf::cpu::fused {
namespace {
using SixteenBits = std::uint32_t __attribute__((vector_size(64)));

inline float of_bf16(std::uint32_t bits) { return std::bit_cast<float>(bits << 16U); }

// To the nearest, of two the even one.
inline void fused_round(const float* from, unsigned short* to) {
  for (int lane = 0; lane < VECTOR_LANES; ++lane) {
    const auto bits = std::bit_cast<std::uint32_t>(from[lane]);
    const std::uint32_t even = bits >> 16U & 1U;
    to[lane] = static_cast<unsigned short>(std::isnan(from[lane]) ? 0x7FC0U : (bits + 0x7FFFU + even) >> 16U);
  }
}

template <class Pair>
inline SixteenFloats fused_products(SixteenFloats sum, Pair pair, SixteenFloats pairs) {
  const auto bits = reinterpret_cast<SixteenBits>(pairs);
  for (int lane = 0; lane < VECTOR_LANES; ++lane)
    sum[lane] += of_bf16(pair[0]) * of_bf16(bits[lane] & 0xFFFFU) + of_bf16(pair[1]) * of_bf16(bits[lane] >> 16U);
  return sum;
}
}  // namespace
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/conv_pool_relu.inl"
