// What the vector kernels need beyond GCC's vector extensions, in AVX-512: see instructions_generic.inl for what each
// function does. Where g++ 12 warns of the plain forms by mistake, they are masked.
#include <immintrin.h>

#define VECTOR_LANES 16
#define FUSED_REGISTERS 32

namespace mrmf::cpu {
namespace {
inline __mmask16 first_lanes(long count) { return static_cast<__mmask16>((1U << count) - 1); }

typedef __mmask16 Lanes;
inline Lanes lanes_where(__v16si mask) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)); }
inline int size_of(Lanes chosen) { return __builtin_popcount(chosen); }
// Compressing in registers and storing everything is faster than a compressing store.
inline void store_lanes(Lanes chosen, __m512 value, float* to) {
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(chosen, value));
}
inline void store_numbers(Lanes chosen, int first, int* to) {
  const __m512i lane = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                        _mm512_set1_epi32(first));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(chosen, lane));
}

inline __m512 select_of_four(const float* four, __v16si choice) {
  constexpr __mmask16 all = 0xFFFF;
  const __m512 everywhere = _mm512_maskz_broadcast_f32x4(all, _mm_loadu_ps(four));
  return _mm512_maskz_permutevar_ps(all, everywhere, reinterpret_cast<__m512i>(choice));
}

constexpr long table_floats = 32;
struct Table {
  __m512 low, high;
};
inline Table load_table(const float* from, long count) {
  return {_mm512_loadu_ps(from), count > 16 ? _mm512_loadu_ps(from + 16) : _mm512_setzero_ps()};
}
inline __m512 select_of_table(const Table& table, __v16si choice) {
  return _mm512_permutex2var_ps(table.low, reinterpret_cast<__m512i>(choice), table.high);
}

inline __v16si load_bytes(const unsigned char* from) {
  constexpr __mmask16 all = 0xFFFF;
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<__v16si>(_mm512_maskz_cvtepu8_epi32(all, bytes));
}
inline void store_bytes(unsigned char* to, __v16si ints) {
  constexpr __mmask16 all = 0xFFFF;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(all, reinterpret_cast<__m512i>(ints)));
}

inline __m512 load_some(const float* from, long count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }
// In halves, quarters and so on: after a masked store, processors wait with loads from there.
inline void store_some(float* to, long count, __m512 value) {
  constexpr __mmask8 all = 0xFF;
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
}  // namespace mrmf::cpu
