// The fused kernel, the loops of batch norm, the products of locally connected layers and the direct kernels for
// AVX-512. See conv_pool_relu.inl, batch_norm.inl, locally_connected.inl and direct_kernels.inl.
#include <immintrin.h>

#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define FUSED_REGISTERS 32

namespace mrmf::cpu::fused {
namespace {
// Appends the lanes of `value` where mask is set, with their indices first, first + 1, ...; returns their number. May
// write a whole vector: compressing in registers and storing everything is faster than a compressing store.
inline int fused_compress(__v16si mask, __m512 value, int first, float* values, int* indices) {
  const __mmask16 bits = _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
  const __m512i lane = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                        _mm512_set1_epi32(first));
  _mm512_storeu_ps(values, _mm512_maskz_compress_ps(bits, value));
  _mm512_storeu_si512(indices, _mm512_maskz_compress_epi32(bits, lane));
  return __builtin_popcount(bits);
}

// Each lane's choice of one of four floats. Zero-masked, because g++ 12 warns of the plain forms by mistake.
inline __m512 fused_select(const float* four, __v16si choice) {
  constexpr __mmask16 all = 0xFFFF;
  const __m512 everywhere = _mm512_maskz_broadcast_f32x4(all, _mm_loadu_ps(four));
  return _mm512_maskz_permutevar_ps(all, everywhere, reinterpret_cast<__m512i>(choice));
}
}  // namespace
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::local {
namespace {
// The first `count` floats, and zeros.
inline __mmask16 first_lanes(long count) { return static_cast<__mmask16>((1U << count) - 1); }
inline __m512 load_some(const float* from, long count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
// In halves, quarters and so on: after a masked store, processors wait with loads from there.
inline void store_some(float* to, long count, __m512 value) {
  constexpr __mmask8 all = 0xFF;  // masked, because g++ 12 warns of the plain forms by mistake
  __m256 eight = _mm512_maskz_extractf32x8_ps(all, value, 0);
  if (count & 8) {
    _mm256_storeu_ps(to, eight);
    eight = _mm512_maskz_extractf32x8_ps(all, value, 1);
    to += 8;
  }
  __m128 four = _mm256_castps256_ps128(eight);
  if (count & 4) {
    _mm_storeu_ps(to, four);
    four = _mm256_extractf128_ps(eight, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), four);
    four = _mm_movehl_ps(four, four);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, four);
}
// The lanes of each are added in quarters first, for all four at once.
inline __m128 sums_of_four(__m512 a, __m512 b, __m512 c, __m512 d) {
  constexpr __mmask16 all = 0xFFFF;
  const __m512 ab = _mm512_maskz_unpacklo_ps(all, a, b) + _mm512_maskz_unpackhi_ps(all, a, b);
  const __m512 cd = _mm512_maskz_unpacklo_ps(all, c, d) + _mm512_maskz_unpackhi_ps(all, c, d);
  const __m512 quarters = _mm512_maskz_shuffle_ps(all, ab, cd, 0x44) + _mm512_maskz_shuffle_ps(all, ab, cd, 0xEE);
  constexpr __mmask8 half = 0xFF;
  const __m256 eight =
      _mm512_maskz_extractf32x8_ps(half, quarters, 0) + _mm512_maskz_extractf32x8_ps(half, quarters, 1);
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
}  // namespace
}  // namespace mrmf::cpu::local

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* avx512_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#define DIRECT_TILE 12

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx512_kernels() { return kernel_set; }
const bool sixteen_lanes_need_avx512 = true;
}  // namespace mrmf::cpu::direct
