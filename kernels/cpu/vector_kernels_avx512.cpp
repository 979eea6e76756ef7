// The fused kernel and the loops of batch norm for AVX-512. See conv_pool_relu.inl and norm_loops.inl.
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

#include "kernels/cpu/norm_loops.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops
