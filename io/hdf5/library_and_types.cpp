// The HDF5 library's lock, objects and errors, and the types and filters of data sets.
#include "io/hdf5/library_and_types.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"

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

File open_to_read(const std::string& path) {
  silence();
  std::string reason;
  File file = open_to_read(path, file_access(), reason);
  if (!file) check_readable(path);  // which says why, where it can
  if (!file) throw DataError(path + ": cannot be opened; " + reason);
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

namespace {

/// The library would keep up to 32 MiB of chunk indices per file, but the part for a row is used only once.
void limit_index_memory(const h5::Properties& access) {
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access.get(), &cache) < 0) return;
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = std::size_t{1} << 20;
  cache.max_size = std::size_t{1} << 22;
  H5Pset_mdc_config(access.get(), &cache);
}

/// Every open file has a cache whose table alone takes half a megabyte. By default the library gives it back when the
/// file is closed, and gets it anew, zeroed page by page by the system, for the next one, which takes longer than all
/// else that opening a small file takes.
void keep_freed_tables() {
  constexpr int kMiB = 1 << 20, kKiB = 1 << 10;
  // All but the first two are the library's own limits: of single blocks, arrays and blocks of any size.
  H5set_free_list_limits(8 * kMiB, 4 * kMiB, 4 * kMiB, 256 * kKiB, 16 * kMiB, kMiB);
}

}  // namespace

DataFile::DataFile(const std::string& path) : path_(path) {
  const h5::Lock lock;
  h5::silence();
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) h5::check_readable(path);  // which says what it is
  keep_freed_tables();
  const h5::Properties access = h5::file_access();
  limit_index_memory(access);
  std::string reason;
  file_ = h5::open_to_read(path, access, reason);
  if (!file_) h5::check_readable(path);
  if (!file_) throw DataError(path + ": cannot be opened; " + reason);
}

DataFile::~DataFile() {
  const h5::Lock lock;
  file_.close();
}

}  // namespace mrmf

namespace mrmf::h5 {
namespace {

/// The bits of a float, as the file has them.
struct FloatBits {
  std::size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0, bias = 0;

  explicit FloatBits(hid_t type) {
    H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
    bias = H5Tget_ebias(type);
  }
  /// Whether a float with so many bits of mantissa and normal exponents from 1 - range to range holds all its numbers.
  bool fit(std::size_t bits, double range) const {
    const double most = static_cast<double>((std::uint64_t{1} << std::min<std::size_t>(exponent, 62)) - 2);
    const auto zero = static_cast<double>(bias);
    return mantissa <= bits && most - zero <= range && 1 - zero >= 1 - range;
  }
};

bool is_half(hid_t type) {
  const FloatBits bits(type);
  const H5T_order_t order = H5Tget_order(type);
  return H5Tget_size(type) == 2 && bits.sign == 15 && bits.exponent_at == 10 && bits.exponent == 5 &&
         bits.mantissa == 10 && bits.bias == 15 && (order == H5T_ORDER_LE || order == H5T_ORDER_BE);
}

ElementType float_type(hid_t type) {
  if (is_half(type)) return ElementType::float16;
  return FloatBits(type).fit(23, 127) ? ElementType::float32 : ElementType::float64;
}

ElementType whole_type(std::size_t bits, bool sign) {
  if (bits <= 8) return sign ? ElementType::int8 : ElementType::uint8;
  if (bits <= 16) return sign ? ElementType::int16 : ElementType::uint16;
  if (bits <= 32) return sign ? ElementType::int32 : ElementType::uint32;
  if (bits <= 64) return sign ? ElementType::int64 : ElementType::uint64;
  return ElementType::float64;
}

std::string member_name(hid_t type, unsigned i) {
  char* const text = H5Tget_member_name(type, i);
  std::string name = text == nullptr ? "" : text;
  H5free_memory(text);
  return name;
}

/// The members of a complex number.
struct ComplexParts {
  std::string real, imaginary;  ///< as the file calls them
  Type of;                      ///< both of them
};

/// HDF5 1 has no complex numbers: programs store compounds of two numbers, under names of their own.
std::optional<ComplexParts> complex_parts(hid_t type) {
  constexpr std::array<std::pair<const char*, const char*>, 4> known{
      {{"r", "i"}, {"re", "im"}, {"real", "imag"}, {"real", "imaginary"}}};
  if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2) return {};
  const auto plain = [](std::string name) {
    std::string letters;
    for (const char c : name)
      if (std::isalpha(static_cast<unsigned char>(c)) != 0)
        letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return letters;
  };
  std::string first = member_name(type, 0), second = member_name(type, 1);
  Type of(H5Tget_member_type(type, 0));
  const Element one = element_of(of.get()), other = element_of(Type(H5Tget_member_type(type, 1)).get());
  if (one.type == ElementType::other || one.type != other.type || !one.axes.empty() || !other.axes.empty()) return {};
  for (const auto& [real, imaginary] : known) {
    if (plain(first) == real && plain(second) == imaginary) return ComplexParts{first, second, std::move(of)};
    if (plain(second) == real && plain(first) == imaginary) return ComplexParts{second, first, std::move(of)};
  }
  return {};
}

std::vector<hsize_t> array_axes(hid_t type) {
  std::vector<hsize_t> axes(static_cast<std::size_t>(std::max(H5Tget_array_ndims(type), 0)));
  if (!axes.empty()) H5Tget_array_dims2(type, axes.data());
  return axes;
}

Type native_type(ElementType type) {
  switch (type) {
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
    case ElementType::float16:
    case ElementType::other: break;
  }
  // HDF5 1.10 has no half precision: as is_half() has it.
  Type half(H5Tcopy(H5T_NATIVE_FLOAT));
  H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
  H5Tset_size(half.get(), 2);
  H5Tset_ebias(half.get(), 15);
  return half;
}

/// The library converts between bit fields alone.
Type native_bits(ElementType type) {
  switch (size_of(type)) {
    case 1: return Type(H5Tcopy(H5T_NATIVE_B8));
    case 2: return Type(H5Tcopy(H5T_NATIVE_B16));
    case 4: return Type(H5Tcopy(H5T_NATIVE_B32));
    default: return Type(H5Tcopy(H5T_NATIVE_B64));
  }
}

}  // namespace

Element element_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_ENUM: return element_of(Type(H5Tget_super(type)).get());  // booleans of h5py
    case H5T_INTEGER: return {whole_type(H5Tget_precision(type), H5Tget_sign(type) != H5T_SGN_NONE), {}};
    case H5T_BITFIELD: {
      const std::size_t bits = H5Tget_precision(type);
      return {bits <= 64 ? whole_type(bits, false) : ElementType::other, {}};
    }
    case H5T_FLOAT: return {float_type(type), {}};
    case H5T_COMPOUND: {
      const auto parts = complex_parts(type);
      return parts ? Element{element_of(parts->of.get()).type, {2}} : Element{};
    }
    case H5T_ARRAY: {
      const Element inner = element_of(Type(H5Tget_super(type)).get());
      Element all{inner.type, {}};
      for (const hsize_t size : array_axes(type)) all.axes.push_back(static_cast<Index>(size));
      all.axes.insert(all.axes.end(), inner.axes.begin(), inner.axes.end());
      return all;
    }
    default: return {};
  }
}

std::string describe(hid_t type) {
  const std::string bits = std::to_string(H5Tget_precision(type)) + "-bit ";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return bits + (H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned integer" : "integer");
    case H5T_FLOAT: {
      const ElementType memory = float_type(type);
      return H5Tget_precision(type) == 8 * static_cast<std::size_t>(size_of(memory)) ? to_string(memory)
                                                                                     : bits + "float";
    }
    case H5T_STRING: return "string";
    case H5T_COMPOUND: {
      const auto parts = complex_parts(type);
      return parts ? "complex " + describe(parts->of.get()) : "compound";
    }
    case H5T_ENUM: return "enumeration";
    case H5T_BITFIELD: return bits + "bit field";
    case H5T_VLEN: return "variable-length";
    case H5T_REFERENCE: return "reference";
    case H5T_ARRAY: return "array of " + describe(Type(H5Tget_super(type)).get());
    case H5T_OPAQUE: return "opaque";
    default: return "another kind of";
  }
}

Type memory_type(hid_t type) {
  const ElementType number = element_of(type).type;
  switch (H5Tget_class(type)) {
    case H5T_BITFIELD: return native_bits(number);
    case H5T_COMPOUND: {
      const auto parts = complex_parts(type);
      const Type part = memory_type(parts->of.get());
      const std::size_t bytes = H5Tget_size(part.get());
      Type both(H5Tcreate(H5T_COMPOUND, 2 * bytes));
      H5Tinsert(both.get(), parts->real.c_str(), 0, part.get());
      H5Tinsert(both.get(), parts->imaginary.c_str(), bytes, part.get());
      return both;
    }
    case H5T_ARRAY: {
      const Type inner = memory_type(Type(H5Tget_super(type)).get());
      const std::vector<hsize_t> axes = array_axes(type);
      return Type(H5Tarray_create2(inner.get(), static_cast<unsigned>(axes.size()), axes.data()));
    }
    default: return native_type(number);
  }
}

Type stored_type(ElementType type) {
  Type stored = native_type(type);
  H5Tset_order(stored.get(), H5T_ORDER_LE);
  return stored;
}

namespace {

struct Filter {
  H5Z_filter_t number = 0;
  std::string name;  ///< as the file has it; may be empty
};

/// Names come from the file: letters of the first line, and not many.
std::string name_text(std::string_view stored) {
  constexpr std::size_t most = 60;
  std::string name;
  for (const char c : stored.substr(0, stored.find(';'))) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0 || name.size() == most) break;
    name += c;
  }
  return name;
}

Filter filter_at(const Properties& creation, unsigned i) {
  unsigned flags = 0, settings = 0;
  std::size_t values = 0;
  std::array<char, 256> name{};
  Filter filter;
  filter.number = H5Pget_filter2(creation.get(), i, &flags, &values, nullptr, name.size(), name.data(), &settings);
  name.back() = '\0';
  filter.name = name_text(name.data());
  return filter;
}

/// Which filters the first chunk did not go through, as bits; all, where there is no chunk.
unsigned passed_by(const Dataset& dataset, const Properties& creation) {
  const Space all(H5Dget_space(dataset.get()));
  hsize_t count = 0, bytes = 0;
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED || H5Dget_num_chunks(dataset.get(), all.get(), &count) < 0 ||
      count == 0)
    return ~0U;
  std::vector<hsize_t> first(H5S_MAX_RANK);
  unsigned mask = ~0U;
  haddr_t address = 0;
  return H5Dget_chunk_info(dataset.get(), all.get(), 0, first.data(), &mask, &address, &bytes) < 0 ? 0U : mask;
}

std::string advice() {
  const char* const folders = std::getenv("HDF5_PLUGIN_PATH");
  const std::string where = folders == nullptr || *folders == '\0' ? "" : " (which is " + std::string(folders) + ")";
  return "put its plugin into a folder and name that in HDF5_PLUGIN_PATH" + where +
         " (Python's hdf5plugin has many, in hdf5plugin.PLUGIN_PATH), or write the data set anew, with gzip or without";
}

}  // namespace

std::optional<std::string> missing_filter(const Dataset& dataset, bool used) {
  const Properties creation(H5Dget_create_plist(dataset.get()));
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    const Filter filter = filter_at(creation, static_cast<unsigned>(i));
    if (filter.number < 0 || H5Zfilter_avail(filter.number) > 0) continue;
    if (used && (passed_by(dataset, creation) >> i & 1U) != 0) continue;
    return "is packed by filter " + std::to_string(filter.number) +
           (filter.name.empty() ? "" : " (" + filter.name + ")") + ", which HDF5 does not find here; " + advice();
  }
  return {};
}

void require_filters(const Dataset& dataset, const std::string& what) {
  if (const auto missing = missing_filter(dataset, true)) throw DataError(what + " " + *missing);
}

}  // namespace mrmf::h5
