// Element types of numbers in files and in memory, their conversion to float32, and the digits that it loses.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

// Element types of samples in files and in memory, and their conversion to float32.

/// Element types that files may hold. Reading converts all of them to float32.
enum class ElementType { float16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64, other };
std::string to_string(ElementType type);
/// "float16, ... can be read": the end of every message about an unreadable type.
std::string readable_types();
/// Bytes of one element in memory.
Index size_of(ElementType type);
bool is_float(ElementType type);
/// The type of samples in memory: the file's own, or float32 where that takes less.
ElementType kept_as(ElementType type);

/// IEEE binary16; C++20 has no type for it.
struct Half {
  std::uint16_t bits;
};

/// IEEE binary16 to binary32, exact for subnormals, infinities and NaN, whatever the processor's denormal mode.
inline float half_to_float(std::uint16_t half) {
  constexpr std::uint32_t exponent_mask = 0x7c00u << 13;
  std::uint32_t bits = (half & 0x7fffu) << 13;
  const std::uint32_t exponent = bits & exponent_mask;
  bits += (127u - 15u) << 23;
  if (exponent == exponent_mask) bits += (128u - 16u) << 23;  // infinity and NaN
  if (exponent == 0)  // a subnormal half: add an implicit leading one, then subtract it as a float
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(113u << 23));
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

/// An element as float32: exact for types of up to 16 bits, and for float32; others are rounded.
inline float to_float(Half x) { return half_to_float(x.bits); }
inline float to_float(float x) { return x; }
inline float to_float(double x) { return static_cast<float>(x); }
template <std::integral Integer>
float to_float(Integer x) {
  return static_cast<float>(x);
}

/// Calls visit(elements) with `raw` as a pointer to elements of `type`.
template <typename Visit>
void with_elements(ElementType type, const void* raw, Visit&& visit) {
  switch (type) {
    case ElementType::float16: return visit(static_cast<const Half*>(raw));
    case ElementType::float32: return visit(static_cast<const float*>(raw));
    case ElementType::float64: return visit(static_cast<const double*>(raw));
    case ElementType::int8: return visit(static_cast<const std::int8_t*>(raw));
    case ElementType::uint8: return visit(static_cast<const std::uint8_t*>(raw));
    case ElementType::int16: return visit(static_cast<const std::int16_t*>(raw));
    case ElementType::uint16: return visit(static_cast<const std::uint16_t*>(raw));
    case ElementType::int32: return visit(static_cast<const std::int32_t*>(raw));
    case ElementType::uint32: return visit(static_cast<const std::uint32_t*>(raw));
    case ElementType::int64: return visit(static_cast<const std::int64_t*>(raw));
    case ElementType::uint64: return visit(static_cast<const std::uint64_t*>(raw));
    case ElementType::other: break;
  }
  MRMF_CHECK(false, "elements of a type that cannot be read");
}

/// Converts out.size() elements of `type` at `raw`, on the calling thread alone.
void to_float32(ElementType type, const void* raw, Span out);

/// Index of the first of `count` elements that is NaN or infinite in its own type; `count` when there is none.
Index first_not_finite(ElementType type, const void* raw, Index count);
/// Index of the first of `count` elements that is NaN, infinite, or a float64 number that float32 cannot hold; `count`
/// when there is none.
Index first_beyond_float32(ElementType type, const void* raw, Index count);

/// Index of the first that is infinite, or as a float64 beyond float32; NaN is neither. `count` when there is none.
Index first_infinite(ElementType type, const void* raw, Index count);

/// An element as a double: exact but for integers of 64 bits.
double number_at(ElementType type, const void* raw, Index index);
/// A number as a file holds it: of a double some integers of 64 bits are too large.
using ExactNumber = long double;
ExactNumber exact_number_at(ElementType type, const void* raw, Index index);
/// A number in the fewest digits that read back as the same of its type; "nan" for every NaN.
template <typename Number>
std::string shortest_text(Number number) {
  if (number != number) return "nan";
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}
/// What is wrong with a number that is not finite as float32: "NaN", "an infinity", "1e+40, which is beyond ...".
std::string not_finite_reason(double value);

// Digits that float32, in which training computes and averages are written, does not keep of what files hold.

/// Whether numbers of this type may have digits that float32 has not.
bool is_wide(ElementType type);
/// The distance of neighbours in float32.
double step_at(double value);
/// Nothing is counted, and few things are measured in whole numbers, so far from 0.
bool is_like_identifier(double value);

/// Sums of one channel's numbers, around the first of them, which keeps the sums exact enough.
struct ChannelSums {
  ExactNumber origin = 0;
  double count = 0;
  ExactNumber x = 0, xx = 0, errors = 0;
  bool same = true;   ///< all numbers are
  bool whole = true;  ///< whether the numbers are of an integer type
  void add(ExactNumber value);
  ExactNumber mean() const { return origin + x / count; }
  double deviation() const;
  double error() const;  ///< the root of the mean square by which rounding moves them
  /// Whether that is more than a hundredth of the deviation, which is more than the rounding of a double.
  bool loses_digits() const;
  static constexpr double kMostError = 0.01;
};

/// "holds numbers around 2.46e+06 with a deviation of 0.1 in a channel, and float32, in which training computes, knows
/// only every 0.25 there; subtract 2459000 before storing them". `use`: "training computes".
std::string lost_text(const ChannelSums& sums, double deviation, const std::string& channel, const std::string& use);

/// Sums of a data set's channels by some of its rows, where its type may have digits that float32 has not.
class DigitSums {
 public:
  /// A row has `per_row` samples of this shape, channels last.
  DigitSums(ElementType type, Index per_row, const Shape& sample);
  /// The numbers of a row, as they are stored; `whole`: they are of an integer type.
  void add_row(const std::byte* row, bool whole);
  /// lost_text() of the first channel that loses digits; "": none does.
  std::string lost_text(const std::string& use) const;

 private:
  ElementType type_;
  Index per_row_;
  Shape sample_;
  std::vector<ChannelSums> sums_;  // empty: the type has none
};

}  // namespace mrmf
