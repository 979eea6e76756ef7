#include "io/hdf5_types.hpp"

#include <algorithm>

namespace mrmf {

std::string to_string(ElementType type) {
  switch (type) {
    case ElementType::float16: return "float16";
    case ElementType::float32: return "float32";
    case ElementType::float64: return "float64";
    case ElementType::int16: return "int16";
    case ElementType::uint16: return "uint16";
    case ElementType::other: break;
  }
  return "other";
}

std::string readable_types() { return "float16, float32, float64, int16 and uint16 can be read"; }

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

namespace h5 {
namespace {

bool is_half(hid_t type) {
  std::size_t sign = 0, exponent_at = 0, exponent_bits = 0, mantissa_at = 0, mantissa_bits = 0;
  if (H5Tget_class(type) != H5T_FLOAT || H5Tget_size(type) != 2) return false;
  if (H5Tget_fields(type, &sign, &exponent_at, &exponent_bits, &mantissa_at, &mantissa_bits) < 0) return false;
  return sign == 15 && exponent_at == 10 && exponent_bits == 5 && mantissa_bits == 10 && H5Tget_ebias(type) == 15;
}

bool is_any_of(hid_t type, hid_t little, hid_t big) { return H5Tequal(type, little) > 0 || H5Tequal(type, big) > 0; }

template <typename Element>
void convert(const void* raw, Span out) {
  const auto* from = static_cast<const Element*>(raw);
  const auto count = static_cast<Index>(out.size());
  float* to = out.data();
#pragma omp parallel for simd schedule(static)
  for (Index i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void convert_half(const void* raw, Span out) {
  const auto* from = static_cast<const std::uint16_t*>(raw);
  const auto count = static_cast<Index>(out.size());
  float* to = out.data();
#pragma omp parallel for simd schedule(static)
  for (Index i = 0; i < count; ++i) to[i] = half_to_float(from[i]);
}

}  // namespace

ElementType element_type(hid_t type) {
  if (is_half(type)) return ElementType::float16;
  if (is_any_of(type, H5T_IEEE_F32LE, H5T_IEEE_F32BE)) return ElementType::float32;
  if (is_any_of(type, H5T_IEEE_F64LE, H5T_IEEE_F64BE)) return ElementType::float64;
  if (is_any_of(type, H5T_STD_I16LE, H5T_STD_I16BE)) return ElementType::int16;
  if (is_any_of(type, H5T_STD_U16LE, H5T_STD_U16BE)) return ElementType::uint16;
  return ElementType::other;
}

std::string describe(hid_t type) {
  const std::string bits = std::to_string(8 * H5Tget_size(type)) + "-bit ";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return bits + (H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned integer" : "integer");
    case H5T_FLOAT: return element_type(type) == ElementType::other ? bits + "float" : to_string(element_type(type));
    case H5T_STRING: return "string";
    case H5T_COMPOUND: return "compound";
    case H5T_ENUM: return "enumeration";
    case H5T_VLEN: return "variable-length";
    default: return "another kind of";
  }
}

Type memory_type(ElementType type, hid_t file_type) {
  switch (type) {
    case ElementType::float16: break;
    case ElementType::float32: return Type(H5Tcopy(H5T_NATIVE_FLOAT));
    case ElementType::float64: return Type(H5Tcopy(H5T_NATIVE_DOUBLE));
    case ElementType::int16: return Type(H5Tcopy(H5T_NATIVE_INT16));
    case ElementType::uint16: return Type(H5Tcopy(H5T_NATIVE_UINT16));
    case ElementType::other: break;
  }
  Type half(H5Tcopy(file_type));
  H5Tset_order(half.get(), H5Tget_order(H5T_NATIVE_FLOAT));
  return half;
}

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::float32: return 4;
    case ElementType::float64: return 8;
    default: return 2;
  }
}

void to_float32(ElementType type, const void* raw, Span out) {
  switch (type) {
    case ElementType::float16: return convert_half(raw, out);
    case ElementType::float32: return convert<float>(raw, out);
    case ElementType::float64: return convert<double>(raw, out);
    case ElementType::int16: return convert<std::int16_t>(raw, out);
    case ElementType::uint16: return convert<std::uint16_t>(raw, out);
    case ElementType::other: break;
  }
  MRMF_CHECK(false, "no conversion from this element type");
}

}  // namespace h5
}  // namespace mrmf
