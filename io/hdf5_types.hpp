// Element types of files and their conversion to float32. Private to io/hdf5_*.cpp.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "io/hdf5.hpp"
#include "io/hdf5_handle.hpp"

namespace mrmf::h5 {

/// Which of our element types a file's type is, in either byte order.
ElementType element_type(hid_t file_type);

/// A user's name for any HDF5 type: "64-bit integer", "string", "compound".
std::string describe(hid_t file_type);

/// The type as this machine holds it in memory; the library swaps bytes on the way. HDF5 1.10 has no half type of
/// its own, so float16 is built from the file's type.
Type memory_type(ElementType type, hid_t file_type);

/// Bytes of one element in memory.
std::size_t size_of(ElementType type);

/// Converts out.size() elements of `type` at `raw` to float32; exact for all but float64.
void to_float32(ElementType type, const void* raw, Span out);

/// IEEE binary16 to binary32, exact for subnormals, infinities and NaN, whatever the processor's denormal mode.
inline float half_to_float(std::uint16_t half) {
  constexpr std::uint32_t exponent_mask = 0x7c00u << 13;
  std::uint32_t bits = (half & 0x7fffu) << 13;
  const std::uint32_t exponent = bits & exponent_mask;
  bits += (127u - 15u) << 23;
  if (exponent == exponent_mask) bits += (128u - 16u) << 23;  // infinity and NaN
  if (exponent == 0)  // a subnormal half: give it a leading one, and take that one away again as a float
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(113u << 23));
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

}  // namespace mrmf::h5
