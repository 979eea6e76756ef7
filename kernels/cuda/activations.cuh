// Stored activations in kernels: reading and writing them 16 bytes at a time, and where positions and the windows of a
// pooling lie.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/operations.hpp"

namespace mrmf::cuda {

// Reading and writing stored activations: 16 bytes at a time, as floats in registers.

/// The bits of a bfloat16: the upper half of a float32.
struct Bf16 {
  std::uint16_t bits;
};

/// Elements of one 16-byte vector.
template <class T>
inline constexpr int width = 16 / static_cast<int>(sizeof(T));

/// Calls use(T{}) with the type of the elements.
template <class Use>
void with_element(const Storage& storage, Use use) {
  if (storage.bf16)
    use(Bf16{});
  else
    use(float{});
}

/// Stored memory as elements. FaultError where 16-byte accesses would be misaligned.
template <class T>
const T* elements(const void* p) {
  MRMF_CHECK(reinterpret_cast<std::uintptr_t>(p) % 16 == 0, "an activation must lie at a multiple of 16 bytes");
  return static_cast<const T*>(p);
}
template <class T>
T* elements(void* p) {
  return const_cast<T*>(elements<T>(static_cast<const void*>(p)));
}

/// Plain words of memory, moved by one instruction on a device.
template <class Words>
MRMF_HD Words read_words(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const Words*>(from);
#else
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
#endif
}
template <class Words>
MRMF_HD void write_words(const Words& words, void* to) {
#ifdef __CUDA_ARCH__
  *static_cast<Words*>(to) = words;
#else
  std::memcpy(to, &words, sizeof(words));
#endif
}

MRMF_HD inline float to_float(float x) { return x; }
MRMF_HD inline float to_float(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

/// Two floats as bfloat16, the first in the lower half; to nearest, ties to even, as the device's instruction does.
MRMF_HD inline std::uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  const auto round = [](float x) -> std::uint32_t {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return 0x7FFF;
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  };
  return round(low) | (round(high) << 16);
#endif
}

MRMF_HD inline void unpack(const uint4& words, float (&v)[4]) {
  v[0] = std::bit_cast<float>(words.x), v[1] = std::bit_cast<float>(words.y);
  v[2] = std::bit_cast<float>(words.z), v[3] = std::bit_cast<float>(words.w);
}
MRMF_HD inline void unpack(const uint4& words, float (&v)[8]) {
  const std::uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
  for (int k = 0; k < 4; ++k) {
    v[2 * k] = std::bit_cast<float>(pairs[k] << 16);
    v[2 * k + 1] = std::bit_cast<float>(pairs[k] & 0xFFFF0000U);
  }
}

/// Vector number `i` of an array.
template <class T>
MRMF_HD void load(const T* x, std::size_t i, float (&v)[width<T>]) {
  unpack(read_words<uint4>(x + i * width<T>), v);
}
/// The same of memory that nothing writes during the kernel: such loads may be moved before other stores.
template <class T>
MRMF_HD void load_constant(const T* x, std::size_t i, float (&v)[width<T>]) {
#ifdef __CUDA_ARCH__
  unpack(__ldg(reinterpret_cast<const uint4*>(x + i * width<T>)), v);
#else
  load(x, i, v);
#endif
}
MRMF_HD inline void store(const float (&v)[4], float* x, std::size_t i) {
  write_words(float4{v[0], v[1], v[2], v[3]}, x + 4 * i);
}
MRMF_HD inline void store(const float (&v)[8], Bf16* x, std::size_t i) {
  write_words(uint4{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])},
              x + 8 * i);
}

/// Element `i` of an array.
MRMF_HD inline void store_element(float v, float* x, std::size_t i) { x[i] = v; }
MRMF_HD inline void store_element(float v, Bf16* x, std::size_t i) {
  x[i].bits = static_cast<std::uint16_t>(pack_bf16(v, 0));
}

/// The parameters of a vector's channels; they are unpadded and of any alignment. Zeros for pad channels. Where all are
/// aligned to 16 bytes, they come four at a time.
template <int W>
MRMF_HD void load_parameters(const float* p, std::uint32_t vector, std::uint32_t channels, float (&v)[W]) {
  const float* const from = p + std::size_t{vector} * W;
  if ((vector + 1) * W <= channels && reinterpret_cast<std::uintptr_t>(from) % sizeof(float4) == 0) {
    for (int i = 0; i < W; i += 4) {
      const auto four = read_words<float4>(from + i);
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
    return;
  }
  for (int i = 0; i < W; ++i) v[i] = vector * W + static_cast<std::uint32_t>(i) < channels ? p[vector * W + i] : 0;
}

/// One byte per element of a vector, as words: memory of winners is aligned to 4 bytes alone.
template <int W>
struct Bytes {
  std::uint32_t words[W / 4] = {};

  MRMF_HD std::uint32_t operator[](int i) const { return (words[i / 4] >> (8 * (i % 4))) & 0xFFU; }
  MRMF_HD void set(int i, std::uint32_t value) {
    const int shift = 8 * (i % 4);
    words[i / 4] = (words[i / 4] & ~(0xFFU << shift)) | (value << shift);
  }
  MRMF_HD void load(const std::uint8_t* from, std::size_t vector) {
    for (int k = 0; k < W / 4; ++k) words[k] = read_words<std::uint32_t>(from + vector * W + 4 * k);
  }
  MRMF_HD void store(std::uint8_t* to, std::size_t vector) const {
    for (int k = 0; k < W / 4; ++k) write_words(words[k], to + vector * W + 4 * k);
  }
};

// Where the windows of a pooling lie. A row is a position of a sample, last axis fastest, samples after one another:
// row numbers of input and output are what the kernels count in.

inline constexpr std::uint32_t outside = ~0U;  ///< the tap of a position that no window covers

/// Side 0: any windows. Where they are cubes of a side known to the compiler, its loops are unrolled and several loads
/// are in flight; side 1 says that there are no windows.
template <std::uint32_t Side = 0>
class Windows {
 public:
  static constexpr std::uint32_t side = Side;

  explicit Windows(const PoolGeometry& g, Index samples) {
    const Extent sizes = g.out();
    count32(samples * product(g.in));  // input rows are counted in 32 bits
    for (int a = 0; a < 3; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      in_[a] = count32(g.in[axis]), out_[a] = count32(sizes[axis]);
      window_[a] = count32(g.window[axis]), stride_[a] = count32(g.stride[axis]);
      by_in_[a] = Divider(g.in[axis]), by_out_[a] = Divider(sizes[axis]), by_stride_[a] = Divider(g.stride[axis]);
    }
  }

  std::uint32_t taps() const { return window_[0] * window_[1] * window_[2]; }

  /// use(tap, input row) for every tap of an output row's window.
  template <class Use>
  MRMF_HD void for_each_tap(std::uint32_t out_row, Use use) const {
    if constexpr (Side == 1) return use(0U, out_row);
    const Coordinates at = coordinates(out_row, by_out_);
    const std::uint32_t first = input_row(at);
    std::uint32_t tap = 0;
    for (std::uint32_t i = 0; i < window(0); ++i)
      for (std::uint32_t j = 0; j < window(1); ++j)
        for (std::uint32_t k = 0; k < window(2); ++k) use(tap++, first + (i * in_[1] + j) * in_[2] + k);
  }

  /// The input row of one tap of an output row's window.
  MRMF_HD std::uint32_t tap_row(std::uint32_t out_row, std::uint32_t tap) const {
    const std::uint32_t k = tap % window(2), j = tap / window(2) % window(1), i = tap / window(2) / window(1);
    return input_row(coordinates(out_row, by_out_)) + (i * in_[1] + j) * in_[2] + k;
  }

  /// Where window = stride: use(tap, input row) for the window's taps and, of the last window along an axis, for the
  /// positions behind it, too (`outside`), so that all output rows together meet every input row once.
  template <class Use>
  MRMF_HD void for_each_owned(std::uint32_t out_row, Use use) const {
    if constexpr (Side == 1) return use(0U, out_row);
    const Coordinates at = coordinates(out_row, by_out_);
    const std::uint32_t first = input_row(at);
    std::uint32_t end[3];
    bool whole = true;
    for (int a = 0; a < 3; ++a) {
      end[a] = at.axis[a] + 1 == out_[a] ? in_[a] - at.axis[a] * stride_[a] : window(a);
      whole &= end[a] == window(a);
    }
    if (Side > 1 && whole) return for_each_tap(out_row, use);
    for (std::uint32_t i = 0; i < end[0]; ++i)
      for (std::uint32_t j = 0; j < end[1]; ++j)
        for (std::uint32_t k = 0; k < end[2]; ++k) {
          const bool inside = i < window(0) && j < window(1) && k < window(2);
          use(inside ? (i * window(1) + j) * window(2) + k : outside, first + (i * in_[1] + j) * in_[2] + k);
        }
  }

  /// use(tap, output row) for every window that covers an input row.
  template <class Use>
  MRMF_HD void for_each_cover(std::uint32_t in_row, Use use) const {
    const Coordinates at = coordinates(in_row, by_in_);
    std::uint32_t first[3], end[3];
    for (int a = 0; a < 3; ++a) {
      first[a] = at.axis[a] < window_[a] ? 0 : by_stride_[a].quotient(at.axis[a] - window_[a]) + 1;
      const std::uint32_t last = by_stride_[a].quotient(at.axis[a]) + 1;
      end[a] = last < out_[a] ? last : out_[a];
    }
    for (std::uint32_t i = first[0]; i < end[0]; ++i)
      for (std::uint32_t j = first[1]; j < end[1]; ++j)
        for (std::uint32_t k = first[2]; k < end[2]; ++k) {
          const std::uint32_t ti = at.axis[0] - i * stride_[0], tj = at.axis[1] - j * stride_[1],
                              tk = at.axis[2] - k * stride_[2];
          use((ti * window_[1] + tj) * window_[2] + tk, ((at.sample * out_[0] + i) * out_[1] + j) * out_[2] + k);
        }
  }

 private:
  MRMF_HD std::uint32_t window(int axis) const { return Side > 0 ? Side : window_[axis]; }

  struct Coordinates {
    std::uint32_t sample, axis[3];
  };

  MRMF_HD static Coordinates coordinates(std::uint32_t row, const Divider (&by)[3]) {
    Coordinates at{};
    at.axis[2] = by[2].take(row);
    at.axis[1] = by[1].take(row);
    at.axis[0] = by[0].take(row);
    at.sample = row;
    return at;
  }
  /// The first input row of the window at these coordinates of the output.
  MRMF_HD std::uint32_t input_row(const Coordinates& at) const {
    return ((at.sample * in_[0] + at.axis[0] * stride_[0]) * in_[1] + at.axis[1] * stride_[1]) * in_[2] +
           at.axis[2] * stride_[2];
  }

  std::uint32_t in_[3], out_[3], window_[3], stride_[3];
  Divider by_in_[3], by_out_[3], by_stride_[3];
};

/// Calls use(windows) with the side that fits; windows = stride.
template <class Use>
void with_windows(const PoolGeometry& g, Index samples, Use use) {
  const auto cube = [&](Index side) { return g.window == Extent{side, side, side} && g.stride == g.window; };
  if (cube(1))
    use(Windows<1>(g, samples));
  else if (cube(2))
    use(Windows<2>(g, samples));
  else
    use(Windows<>(g, samples));
}

}  // namespace mrmf::cuda
