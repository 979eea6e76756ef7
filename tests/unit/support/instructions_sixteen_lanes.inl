// Sixteen lanes in plain loops, in place of instructions_avx512.inl: see instructions_generic.inl for what each
// function does.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define VECTOR_LANES 16
#define FUSED_REGISTERS 32

namespace mrmf::cpu {
namespace {
using SixteenFloats = float __attribute__((vector_size(64)));
using SixteenInts = int __attribute__((vector_size(64)));

inline int compress(SixteenInts mask, SixteenFloats value, int first, float* values, int* indices) {
  int count = 0;
  for (int lane = 0; lane < VECTOR_LANES; ++lane) {
    if (mask[lane] == 0) continue;
    values[count] = value[lane];
    indices[count++] = first + lane;
  }
  return count;
}

inline SixteenFloats select_of_four(const float* four, SixteenInts choice) {
  SixteenFloats chosen{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) chosen[lane] = four[choice[lane] & 3];
  return chosen;
}

inline SixteenInts load_bytes(const unsigned char* from) {
  SixteenInts ints{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) ints[lane] = from[lane];
  return ints;
}
inline void store_bytes(unsigned char* to, SixteenInts ints) {
  for (int lane = 0; lane < VECTOR_LANES; ++lane) to[lane] = static_cast<unsigned char>(ints[lane]);
}

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
}  // namespace mrmf::cpu
