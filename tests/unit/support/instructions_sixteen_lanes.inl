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

typedef SixteenInts Lanes;
inline Lanes lanes_where(SixteenInts mask) { return mask; }
inline int size_of(Lanes chosen) {
  int size = 0;
  for (int lane = 0; lane < VECTOR_LANES; ++lane) size += static_cast<int>(chosen[lane] != 0);
  return size;
}
inline void store_lanes(Lanes chosen, SixteenFloats value, float* to) {
  for (int lane = 0; lane < VECTOR_LANES; ++lane)
    if (chosen[lane] != 0) *to++ = value[lane];
}
inline void store_numbers(Lanes chosen, int first, int* to) {
  for (int lane = 0; lane < VECTOR_LANES; ++lane)
    if (chosen[lane] != 0) *to++ = first + lane;
}

inline SixteenFloats select_of_four(const float* four, SixteenInts choice) {
  SixteenFloats chosen{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) chosen[lane] = four[choice[lane] & 3];
  return chosen;
}

constexpr long table_floats = 32;
struct Table {
  SixteenFloats low, high;
};
inline Table load_table(const float* from, long count) {
  Table table{};
  std::memcpy(&table, from, sizeof(float) * static_cast<std::size_t>(count > 16 ? 32 : 16));
  return table;
}
inline SixteenFloats select_of_table(const Table& table, SixteenInts choice) {
  SixteenFloats chosen{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane)
    chosen[lane] = choice[lane] < 16 ? table.low[choice[lane] & 15] : table.high[choice[lane] & 15];
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
