// The kernels of 16 lanes for processors that have AVX2 alone, so that what they compute is tested on those as well:
// the same source as for AVX-512, with plain loops where vector_kernels_avx512.cpp has its instructions. Slow.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define FUSED_REGISTERS 32

namespace mrmf::cpu {
namespace {
using SixteenFloats = float __attribute__((vector_size(64)));
using SixteenInts = int __attribute__((vector_size(64)));
}  // namespace
}  // namespace mrmf::cpu

namespace mrmf::cpu::fused {
namespace {
inline int fused_compress(SixteenInts mask, SixteenFloats value, int first, float* values, int* indices) {
  int count = 0;
  for (int lane = 0; lane < VECTOR_LANES; ++lane) {
    if (mask[lane] == 0) continue;
    values[count] = value[lane];
    indices[count++] = first + lane;
  }
  return count;
}

inline SixteenFloats fused_select(const float* four, SixteenInts choice) {
  SixteenFloats chosen{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) chosen[lane] = four[choice[lane] & 3];
  return chosen;
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
inline SixteenFloats load_some(const float* from, long count) {
  SixteenFloats value{};
  std::memcpy(&value, from, sizeof(float) * static_cast<std::size_t>(std::min(count, 16L)));
  return value;
}
inline void store_some(float* to, long count, SixteenFloats value) {
  std::memcpy(to, &value, sizeof(float) * static_cast<std::size_t>(count));
}
inline __m128 sums_of_four(SixteenFloats a, SixteenFloats b, SixteenFloats c, SixteenFloats d) {
  __m128 sums = _mm_setzero_ps();
  for (int lane = 0; lane < VECTOR_LANES; ++lane) sums += _mm_setr_ps(a[lane], b[lane], c[lane], d[lane]);
  return sums;
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

#define DIRECT_TILE 4  // of 12: AVX2 has not the registers, and compilers take minutes to find that out

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx512_kernels() { return kernel_set; }
const bool sixteen_lanes_need_avx512 = false;
}  // namespace mrmf::cpu::direct
