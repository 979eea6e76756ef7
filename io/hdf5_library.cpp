#include "io/hdf5_library.hpp"

#include <cerrno>
#include <cstring>

#include "io/hdf5_file.hpp"

namespace mrmf::h5 {
namespace {

herr_t take_first(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

}  // namespace

void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string last_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  for (char& c : text)
    if (c == '\n') c = ' ';
  const bool descriptors = text.find(std::strerror(EMFILE)) != std::string::npos;
  return text.empty() ? text : "HDF5 says: " + text + (descriptors ? "; raise `ulimit -n`, or use more ranks" : "");
}

void fail(const std::string& what) {
  const std::string reason = last_error();
  throw DataError(reason.empty() ? what : what + "; " + reason);
}

Properties file_access() {
  Properties access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_sec2(access.get());
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

File open_to_read(const std::string& path, const Properties& access, std::string& reason) {
  File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (file) return file;
  reason = last_error();
  if (reason.find("locking flag") == std::string::npos) return file;
  hbool_t locks = true, lax = true;
  H5Pget_file_locking(Properties(H5Pcreate(H5P_FILE_ACCESS)).get(), &locks, &lax);
  const Properties own(H5Pcopy(access.get()));
  H5Pset_file_locking(own.get(), locks, lax);
  file = File(H5Fopen(path.c_str(), H5F_ACC_RDONLY, own.get()));
  reason = file ? "" : last_error();
  return file;
}

Properties write_access() {
  Properties access = file_access();
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  return access;
}

}  // namespace mrmf::h5

namespace mrmf {

std::string hdf5_version() {
  const h5::Lock lock;
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

}  // namespace

ElementType element_type(hid_t type) {
  if (H5Tget_class(type) == H5T_ENUM) return element_type(Type(H5Tget_super(type)).get());  // booleans of h5py
  if (is_half(type)) return ElementType::float16;
  if (is_any_of(type, H5T_IEEE_F32LE, H5T_IEEE_F32BE)) return ElementType::float32;
  if (is_any_of(type, H5T_IEEE_F64LE, H5T_IEEE_F64BE)) return ElementType::float64;
  if (is_any_of(type, H5T_STD_I8LE, H5T_STD_I8BE)) return ElementType::int8;
  if (is_any_of(type, H5T_STD_U8LE, H5T_STD_U8BE)) return ElementType::uint8;
  if (is_any_of(type, H5T_STD_I16LE, H5T_STD_I16BE)) return ElementType::int16;
  if (is_any_of(type, H5T_STD_U16LE, H5T_STD_U16BE)) return ElementType::uint16;
  if (is_any_of(type, H5T_STD_I32LE, H5T_STD_I32BE)) return ElementType::int32;
  if (is_any_of(type, H5T_STD_U32LE, H5T_STD_U32BE)) return ElementType::uint32;
  if (is_any_of(type, H5T_STD_I64LE, H5T_STD_I64BE)) return ElementType::int64;
  if (is_any_of(type, H5T_STD_U64LE, H5T_STD_U64BE)) return ElementType::uint64;
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
    case ElementType::int8: return Type(H5Tcopy(H5T_NATIVE_INT8));
    case ElementType::uint8: return Type(H5Tcopy(H5T_NATIVE_UINT8));
    case ElementType::int16: return Type(H5Tcopy(H5T_NATIVE_INT16));
    case ElementType::uint16: return Type(H5Tcopy(H5T_NATIVE_UINT16));
    case ElementType::int32: return Type(H5Tcopy(H5T_NATIVE_INT32));
    case ElementType::uint32: return Type(H5Tcopy(H5T_NATIVE_UINT32));
    case ElementType::int64: return Type(H5Tcopy(H5T_NATIVE_INT64));
    case ElementType::uint64: return Type(H5Tcopy(H5T_NATIVE_UINT64));
    case ElementType::other: break;
  }
  Type half(H5Tcopy(file_type));
  H5Tset_order(half.get(), H5Tget_order(H5T_NATIVE_FLOAT));
  return half;
}

Type stored_type(ElementType type) {
  Type stored = memory_type(type, H5T_IEEE_F32LE);
  if (type == ElementType::float16) {  // as is_half() has it
    H5Tset_fields(stored.get(), 15, 10, 5, 0, 10);
    H5Tset_size(stored.get(), 2);
    H5Tset_ebias(stored.get(), 15);
  }
  H5Tset_order(stored.get(), H5T_ORDER_LE);
  return stored;
}

}  // namespace h5
}  // namespace mrmf
