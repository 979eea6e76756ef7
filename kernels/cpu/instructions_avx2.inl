// What the vector kernels need beyond GCC's vector extensions, in AVX2: see instructions_generic.inl for what each
// function does.
#include <immintrin.h>

#define VECTOR_LANES 8
#define FUSED_REGISTERS 16

namespace mrmf::cpu {
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

typedef int Lanes;  // bits
inline Lanes lanes_where(__v8si mask) { return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)); }
inline int size_of(Lanes chosen) { return __builtin_popcount(static_cast<unsigned>(chosen)); }
inline __m256i packed_lanes(Lanes chosen) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(compress_table.lane[chosen]));
}
inline void store_lanes(Lanes chosen, __m256 value, float* to) {
  _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(value, packed_lanes(chosen)));
}
inline void store_numbers(Lanes chosen, int first, int* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_add_epi32(packed_lanes(chosen), _mm256_set1_epi32(first)));
}

inline __m256 select_of_four(const float* four, __v8si choice) {
  const __m256 both = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(four));
  return _mm256_permutevar_ps(both, reinterpret_cast<__m256i>(choice));
}

constexpr long table_floats = 0;
struct Table {};
inline Table load_table(const float* /*from*/, long /*count*/) { return {}; }
inline __m256 select_of_table(const Table& /*table*/, __v8si /*choice*/) { return _mm256_setzero_ps(); }

inline __v8si load_bytes(const unsigned char* from) {
  return reinterpret_cast<__v8si>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
inline void store_bytes(unsigned char* to, __v8si ints) {
  const auto all = reinterpret_cast<__m256i>(ints);
  const __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(shorts, shorts));
}

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
}  // namespace mrmf::cpu
