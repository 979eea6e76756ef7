#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mrmf::emulated {

/// Element types of tensors and matrices.
enum class Element { f32, bf16 };
inline std::size_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }

/// What an engine does to its inputs before it multiplies.
enum class Rounding { none, tf32, bf16 };

/// Keeps the upper 32 - `dropped` bits, to nearest, ties to even.
inline float round_bits(float value, int dropped) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;  // infinity and NaN
  const std::uint32_t half = (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u);
  return std::bit_cast<float>((bits + half) & ~((1u << dropped) - 1));
}

inline float rounded(float value, Rounding rounding) {
  return rounding == Rounding::none ? value : round_bits(value, rounding == Rounding::tf32 ? 13 : 16);
}

inline float load(const void* base, std::size_t index, Element element) {
  const char* at = static_cast<const char*>(base) + index * bytes_of(element);
  if (element == Element::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline void store(void* base, std::size_t index, Element element, double value) {
  char* at = static_cast<char*>(base) + index * bytes_of(element);
  const auto single = static_cast<float>(value);
  if (element == Element::f32) {
    std::memcpy(at, &single, sizeof single);
    return;
  }
  const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_bits(single, 16)) >> 16);
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace mrmf::emulated
