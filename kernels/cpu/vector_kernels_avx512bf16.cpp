// Forward of the fused kernel for AVX512-BF16. See conv_pool_relu.inl.
#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "kernels/cpu/instructions_avx512.inl"

#define FUSED_BF16

namespace mrmf::cpu::fused {
namespace {
// Sixteen floats to the nearest bf16.
inline void fused_round(const float* from, unsigned short* to) {
  const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), rounded);
}

// sum + pair * pairs: both products of each lane are added.
template <class Pair>
inline __m512 fused_products(__m512 sum, Pair pair, __m512 pairs) {
  const __m512i everywhere = _mm512_set1_epi32(reinterpret_cast<int>(pair));
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(everywhere), reinterpret_cast<__m512bh>(pairs));
}
}  // namespace
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/conv_pool_relu.inl"
