// The attributes of netCDF and CF that say what an array's numbers mean; declared in library_and_types.hpp.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"

namespace mrmf::h5 {
namespace {

constexpr hssize_t kMostMissing = 64;  // numbers of one attribute

/// Orders the types of attributes as netCDF does: every float is wider than every integer.
int width_of(ElementType type) { return static_cast<int>(size_of(type)) + (is_float(type) ? 8 : 0); }

/// What an attribute says, as exactly as any type has it.
struct Stated {
  std::vector<long double> numbers{};
  int width = 0;  ///< width of its own type
};

/// An open data set and what to say of it.
struct Attributes {
  hid_t object;
  const std::string& what;

  bool has(const char* name) const { return H5Aexists(object, name) > 0; }

  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    throw DataError(what + ": attribute '" + name + "' " + why +
                    "; correct it, or read the numbers as they are stored: data.packing = \"ignore\" (commands without "
                    "a configuration: --packing ignore)");
  }

  /// The numbers of an attribute; none where it is not there.
  Stated stated(const char* name, hssize_t fewest, hssize_t most) const {
    if (!has(name)) return {};
    const Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
    require(bool(attribute), what + ": attribute '" + name + "' cannot be opened");
    const Type type(H5Aget_type(attribute.get()));
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind != H5T_INTEGER && kind != H5T_FLOAT) refuse(name, "is of type " + describe(type.get()) + ", no number");
    const Space space(H5Aget_space(attribute.get()));
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    if (count < fewest || count > most)
      refuse(name, "holds " + std::to_string(count) + " numbers, and " + std::to_string(fewest) +
                       (most > fewest ? " to " + std::to_string(most) + " are"
                        : fewest == 1 ? " is"
                                      : " are") +
                       " wanted");
    Stated found{std::vector<long double>(static_cast<std::size_t>(count)), width_of(element_of(type.get()).type)};
    require(H5Aread(attribute.get(), H5T_NATIVE_LDOUBLE, found.numbers.data()) >= 0,
            what + ": attribute '" + name + "' cannot be read");
    return found;
  }
  std::vector<long double> numbers(const char* name, hssize_t fewest, hssize_t most) const {
    return stated(name, fewest, most).numbers;
  }

  std::string text(const char* name) const {
    const Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
    require(bool(attribute), what + ": attribute '" + name + "' cannot be opened");
    const Type type(H5Aget_type(attribute.get()));
    if (H5Tget_class(type.get()) != H5T_STRING) refuse(name, "is of type " + describe(type.get()) + ", no text");
    return attribute_text(object, name, what);
  }

  double finite(const char* name, double otherwise) const {
    const std::vector<long double> values = numbers(name, 1, 1);
    if (values.empty()) return otherwise;
    const auto value = static_cast<double>(values.front());
    if (!std::isfinite(value)) refuse(name, "is " + not_finite_reason(value));
    return value;
  }
};

/// Numbers of attributes in the type that the file stores; of what this type cannot hold there is none in it.
struct InStored {
  ElementType type;
  bool wraps;

  void add(const std::vector<long double>& from, std::vector<long double>& to) const {
    for (const long double number : from) {
      const std::optional<long double> stored = as_stored(number, type, wraps);
      const bool says = stored && !std::isnan(*stored);  // NaN stays what it is
      if (says && std::ranges::find(to, *stored) == to.end()) to.push_back(*stored);
    }
  }
};

/// The attributes that say which numbers are valid. By the netCDF User's Guide, they are in the units of the unpacked
/// numbers if they are of the wider type of scale_factor and add_offset, and this is wider than the array's; else in
/// those of the stored ones.
class ValidNumbers {
 public:
  ValidNumbers(const Attributes& from, const InStored& in)
      : from_(from),
        in_(in),
        scales_(std::max(from.stated("scale_factor", 1, 1).width, from.stated("add_offset", 1, 1).width)) {}

  void read(Packing& packing) const {
    if (const Stated range = from_.stated("valid_range", 2, 2); !range.numbers.empty()) {
      set("valid_range", {range.numbers[0], range.width}, LimitSide::least, packing);
      set("valid_range", {range.numbers[1], range.width}, LimitSide::most, packing);
      require_some("valid_range", packing);
      return;
    }
    const Stated least = from_.stated("valid_min", 1, 1), most = from_.stated("valid_max", 1, 1);
    if (!least.numbers.empty()) set("valid_min", {least.numbers.front(), least.width}, LimitSide::least, packing);
    if (!most.numbers.empty()) set("valid_max", {most.numbers.front(), most.width}, LimitSide::most, packing);
    require_some("valid_max", packing);
  }

 private:
  struct Limit {
    long double number;
    int width;
  };

  void set(const char* name, Limit limit, LimitSide side, Packing& packing) const {
    if (std::isnan(limit.number)) from_.refuse(name, "holds NaN");
    long double number = limit.number;
    if (limit.width == scales_ && limit.width > width_of(in_.type)) {
      number = packed(limit, packing);
      if (packing.scale < 0) side = side == LimitSide::least ? LimitSide::most : LimitSide::least;
    } else if (in_.wraps) {
      number = as_stored(number, in_.type, true).value_or(number);
    }
    const StoredLimit stored = stored_limit(number, side, in_.type);
    if (stored.none_within)
      from_.refuse(name, "is " + shortest_text(static_cast<double>(limit.number)) + ", which leaves no number of " +
                             to_string(in_.type));
    (side == LimitSide::least ? packing.least : packing.most) = stored.number;
  }

  /// A limit of unpacked numbers as one of stored ones. One that is a stored number, but for the rounding of its own
  /// type, is that number.
  static long double packed(const Limit& limit, const Packing& packing) {
    const long double number = (limit.number - packing.offset) / packing.scale, whole = std::nearbyint(number);
    const long double digits = limit.width == width_of(ElementType::float32) ? std::numeric_limits<float>::epsilon()
                                                                             : std::numeric_limits<double>::epsilon();
    const long double size = std::abs(limit.number) + std::abs(static_cast<long double>(packing.offset));
    const long double slack = std::max(1e-6L, digits * size / std::abs(static_cast<long double>(packing.scale)));
    return !is_float(packing.stored) && std::abs(number - whole) <= slack ? whole : number;
  }

  void require_some(const char* name, const Packing& packing) const {
    if (packing.least && packing.most && *packing.least > *packing.most)
      from_.refuse(name, "leaves no number of " + to_string(in_.type) + " between the least and the largest");
  }

  const Attributes& from_;
  const InStored& in_;
  int scales_;  // 0: there is neither
};

/// What netCDF fills arrays of a type with that say nothing else; none for integers of one byte, of which it masks
/// none.
std::optional<long double> netcdf_fill(ElementType type) {
  switch (type) {
    case ElementType::int16: return -32767;
    case ElementType::uint16: return 65535;
    case ElementType::int32: return -2147483647;
    case ElementType::uint32: return 4294967295;
    case ElementType::int64: return -9223372036854775806LL;
    case ElementType::uint64: return 18446744073709551614ULL;
    case ElementType::float32: return 9.9692099683868690e+36F;
    case ElementType::float64: return 9.9692099683868690e+36;
    default: return {};
  }
}

/// That number, if the data set has it for its fill value: netCDF makes its arrays so.
std::vector<long double> default_missing(const Dataset& dataset, ElementType stored) {
  const std::optional<long double> expected = netcdf_fill(stored);
  if (!expected) return {};
  const Properties creation(H5Dget_create_plist(dataset.get()));
  H5D_fill_value_t state = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(creation.get(), &state) < 0 || state != H5D_FILL_VALUE_USER_DEFINED) return {};
  long double value = 0;
  if (H5Pget_fill_value(creation.get(), H5T_NATIVE_LDOUBLE, &value) < 0 || value != *expected) return {};
  return {value};
}

bool is_unsigned(const Attributes& from) {
  if (!from.has("_Unsigned")) return false;
  std::string text = from.text("_Unsigned");
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text != "true" && text != "false") from.refuse("_Unsigned", "is neither \"true\" nor \"false\"");
  return text == "true";
}

}  // namespace

Packing packing_of(const Dataset& dataset, ElementType file_type, const std::string& what) {
  const Attributes from{dataset.get(), what};
  Packing packing{.stored = file_type};
  if (is_unsigned(from)) packing.stored = unsigned_type(file_type);
  packing.scale = from.finite("scale_factor", 1);
  if (packing.scale == 0) from.refuse("scale_factor", "is 0");
  packing.offset = from.finite("add_offset", 0);
  const InStored in{packing.stored, packing.stored != file_type};
  in.add(from.numbers("missing_value", 1, kMostMissing), packing.missing);
  in.add(from.numbers("_FillValue", 1, 1), packing.missing);
  if (!from.has("_FillValue") && !in.wraps && (packing.scaled() || is_float(packing.stored)))
    in.add(default_missing(dataset, file_type), packing.missing);
  ValidNumbers(from, in).read(packing);
  packing.declared =
      packing.marks() || (is_float(packing.stored) && (from.has("_FillValue") || from.has("missing_value")));
  return packing;
}

const std::vector<std::string>& packing_attributes() {
  static const std::vector<std::string> names{"scale_factor", "add_offset", "_FillValue",  "missing_value",
                                              "valid_min",    "valid_max",  "valid_range", "_Unsigned"};
  return names;
}

bool is_dimension_scale(const Dataset& dataset, const std::string& what) {
  if (H5Aexists(dataset.get(), "CLASS") <= 0) return false;
  {
    const Attribute attribute(H5Aopen(dataset.get(), "CLASS", H5P_DEFAULT));
    const Type type(H5Aget_type(attribute.get()));
    const Space space(H5Aget_space(attribute.get()));
    if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return false;
  }
  return attribute_text(dataset.get(), "CLASS", what) == "DIMENSION_SCALE";
}

void for_each_scale(const Dataset& dataset, const std::function<void(std::size_t axis, const Object& scale)>& found) {
  if (H5Aexists(dataset.get(), "DIMENSION_LIST") <= 0) return;
  const Space shape(H5Dget_space(dataset.get()));
  const int axes = std::max(H5Sget_simple_extent_ndims(shape.get()), 0);
  const Attribute attribute(H5Aopen(dataset.get(), "DIMENSION_LIST", H5P_DEFAULT));
  const Type stored(H5Aget_type(attribute.get())), type(H5Tvlen_create(H5T_STD_REF_OBJ));
  const Space space(H5Aget_space(attribute.get()));
  const bool is_list = H5Tget_class(stored.get()) == H5T_VLEN && H5Tdetect_class(stored.get(), H5T_REFERENCE) > 0;
  if (!is_list || H5Sget_simple_extent_npoints(space.get()) != axes) return;
  std::vector<hvl_t> lists(static_cast<std::size_t>(axes));
  if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) return;
  for (std::size_t axis = 0; axis < lists.size(); ++axis)
    for (std::size_t i = 0; i < lists[axis].len; ++i) {
      const auto* reference = static_cast<const hobj_ref_t*>(lists[axis].p) + i;
      const Object object(H5Rdereference2(dataset.get(), H5P_DEFAULT, H5R_OBJECT, reference));
      if (object) found(axis, object);
    }
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, lists.data());
}

std::vector<std::vector<ObjectIdentity>> scales_of_axes(const Dataset& dataset) {
  const Space shape(H5Dget_space(dataset.get()));
  std::vector<std::vector<ObjectIdentity>> scales(
      static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(shape.get()), 0)));
  for_each_scale(dataset,
                 [&](std::size_t axis, const Object& scale) { scales[axis].push_back(identity_of(scale.get())); });
  return scales;
}

}  // namespace mrmf::h5
