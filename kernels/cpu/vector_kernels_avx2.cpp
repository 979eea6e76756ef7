// The fused kernel, the loops of batch norm, the products of locally connected layers and the direct kernels for AVX2
// with FMA. See conv_pool_relu.inl, batch_norm.inl, locally_connected.inl and direct_kernels.inl.
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

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::local {
namespace {
// The first `count` floats, and zeros.
inline __m256i first_lanes(long count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256 load_some(const float* from, long count) { return _mm256_maskload_ps(from, first_lanes(count)); }
// In halves, quarters and so on: after a masked store, processors wait with loads from there.
inline void store_some(float* to, long count, __m256 value) {
  __m128 four = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, four);
    four = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), four);
    four = _mm_movehl_ps(four, four);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, four);
}
inline __m128 sums_of_four(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}
}  // namespace
}  // namespace mrmf::cpu::local

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* avx2_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#define DIRECT_TILE 6

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct
