// Reading and writing stored activations: 16 bytes at a time, as floats in registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace mrmf::cuda {

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

}  // namespace mrmf::cuda
