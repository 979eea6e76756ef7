// The fused kernel and the loops of batch norm for AVX2 with FMA. See conv_pool_relu.inl and norm_loops.inl.
#include <immintrin.h>

#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 8
#define FUSED_REGISTERS 16

namespace mrmf::cpu::fused {
namespace {

// For each mask of eight lanes: the numbers of the set lanes, packed to the front.
struct CompressTable {
  alignas(32) int lane[256][8];
};
constexpr CompressTable make_compress_table() {
  CompressTable table{};
  for (int mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (int lane = 0; lane < 8; ++lane)
      if (mask & (1 << lane)) table.lane[mask][count++] = lane;
  }
  return table;
}
constexpr CompressTable compress_table = make_compress_table();

// Appends the lanes of `value` where mask is set, with their indices first, first + 1, ...; returns their number. May
// write a whole vector.
inline int fused_compress(__v8si mask, __m256 value, int first, float* values, int* indices) {
  const int bits = _mm256_movemask_ps(reinterpret_cast<__m256>(mask));
  const __m256i lane = _mm256_load_si256(reinterpret_cast<const __m256i*>(compress_table.lane[bits]));
  _mm256_storeu_ps(values, _mm256_permutevar8x32_ps(value, lane));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), _mm256_add_epi32(lane, _mm256_set1_epi32(first)));
  return __builtin_popcount(static_cast<unsigned>(bits));
}

// Each lane's choice of one of four floats.
inline __m256 fused_select(const float* four, __v8si choice) {
  const __m256 both = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(four));
  return _mm256_permutevar_ps(both, reinterpret_cast<__m256i>(choice));
}
}  // namespace
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/norm_loops.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops
