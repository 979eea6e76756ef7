// What attributes say of an array beside how its numbers are packed (packing.cpp): dimensions, coordinates, classes,
// units, and scales that are not applied; declared in library_and_types.hpp and file.hpp.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <sstream>
#include <utility>

#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"

namespace mrmf::h5 {
namespace {

std::vector<int> integers_of(const Dataset& dataset, const char* name) {
  if (H5Aexists(dataset.get(), name) <= 0) return {};
  const Attribute attribute(H5Aopen(dataset.get(), name, H5P_DEFAULT));
  const Space space(H5Aget_space(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tget_class(Type(H5Aget_type(attribute.get())).get()) != H5T_INTEGER || count < 1 || count > H5S_MAX_RANK)
    return {};
  std::vector<int> numbers(static_cast<std::size_t>(count));
  if (H5Aread(attribute.get(), H5T_NATIVE_INT, numbers.data()) < 0) return {};
  return numbers;
}

// An attribute that is a single text; "" where it is none.
std::string single_text(hid_t object, const char* name) try {
  if (H5Aexists(object, name) <= 0) return {};
  const Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (!attribute) return {};
  const Space space(H5Aget_space(attribute.get()));
  if (H5Tget_class(Type(H5Aget_type(attribute.get())).get()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.get()) != 1)
    return {};
  return text_of(attribute);
} catch (const DataError&) {  // the attribute is damaged
  return {};
}

// The names that a text holds, with blanks between them.
void add_names(const Dataset& dataset, const char* attribute, std::vector<std::string>& names) {
  std::istringstream text(single_text(dataset.get(), attribute));
  for (std::string name; text >> name;) names.push_back(name);
}

// The last part of the path of an object that a reference has led to; "" where it has none.
std::string own_name(hid_t object) {
  const ssize_t length = H5Iget_name(object, nullptr, 0);
  if (length <= 0) return {};
  std::string path(static_cast<std::size_t>(length) + 1, '\0');
  H5Iget_name(object, path.data(), path.size());
  path.resize(static_cast<std::size_t>(length));
  return path.substr(path.rfind('/') + 1);
}

// What a dimension scale says of its axis: by its attributes, its own name and the name that is written in it.
NamedAxis axis_of(hid_t scale) {
  NamedAxis axis{axis_kind(CoordinateSaid{single_text(scale, "axis"), single_text(scale, "standard_name"),
                                          single_text(scale, "units"), single_text(scale, "positive")}),
                 own_name(scale)};
  if (axis.kind == AxisKind::unknown) axis.kind = axis_kind(axis.name);
  if (axis.kind != AxisKind::unknown) return axis;
  if (const std::string written = single_text(scale, "NAME"); axis_kind(written) != AxisKind::unknown)
    return {axis_kind(written), written};
  return axis;
}

// The names of axes that programs write beside scales, or without any; as many as there are axes, or none.
std::vector<std::string> labels_of_axes(const Dataset& dataset) try {
  if (H5Aexists(dataset.get(), "DIMENSION_LABELS") <= 0) return {};
  const Attribute attribute(H5Aopen(dataset.get(), "DIMENSION_LABELS", H5P_DEFAULT));
  if (!attribute) return {};
  const std::optional<StoredWords> labels = words_of(attribute, "attribute");
  return labels ? labels->words : std::vector<std::string>{};
} catch (const DataError&) {  // the attribute is damaged
  return {};
}

}  // namespace

NetcdfDimensions netcdf_dimensions(const DataFile& file, const std::string& name) {
  const Lock lock;
  const Dataset dataset = open_dataset(file.path(), file.id(), name);
  NetcdfDimensions found{{}, integers_of(dataset, "_Netcdf4Coordinates")};
  // An array that is no dimension may have the number of its first one there.
  if (const std::vector<int> own = integers_of(dataset, "_Netcdf4Dimid");
      own.size() == 1 && is_dimension_scale(dataset, file.path() + ": '" + name + "'"))
    found.own = own.front();
  return found;
}

ArrayRoles roles_of(const Dataset& dataset) {
  ArrayRoles roles;
  for (const char* const name : {"bounds", "climatology"}) add_names(dataset, name, roles.bounds);
  add_names(dataset, "coordinates", roles.coordinates);
  add_names(dataset, "ancillary_variables", roles.ancillary);
  if (const std::string units = single_text(dataset.get(), "units"); are_times(units)) roles.times = units;
  return roles;
}

const std::vector<std::string>& flag_attributes() {
  static const std::vector<std::string> names{"flag_values", "flag_masks", "flag_meanings"};
  return names;
}

std::string classes_told(const DataFile& file, const std::string& name) {
  const Lock lock;
  const Dataset dataset = open_dataset(file.path(), file.id(), name);
  if (H5Tget_class(Type(H5Dget_type(dataset.get())).get()) == H5T_ENUM) return "enumeration type";
  for (const std::string& attribute : flag_attributes())
    if (H5Aexists(dataset.get(), attribute.c_str()) > 0) return "attribute '" + attribute + "'";
  return {};
}

}  // namespace mrmf::h5

namespace mrmf {

std::vector<NamedAxis> named_axes(const std::string& path, const std::string& name) {
  const h5::Lock lock;
  const DataFile file(path);
  const h5::Dataset dataset = h5::open_dataset(path, file.id(), name);
  const h5::Space space(H5Dget_space(dataset.get()));
  std::vector<NamedAxis> axes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space.get()), 0)));
  const auto add = [&](std::size_t axis, const NamedAxis& found) {
    const bool tells = axes[axis].kind == AxisKind::unknown && found.kind != AxisKind::unknown;
    if (tells || axes[axis].name.empty()) axes[axis] = found;
  };
  h5::for_each_scale(dataset, [&](std::size_t axis, const h5::Object& scale) { add(axis, h5::axis_of(scale.get())); });
  const std::vector<std::string> labels = h5::labels_of_axes(dataset);
  for (std::size_t axis = 0; axis < std::min(axes.size(), labels.size()); ++axis)
    if (!labels[axis].empty()) add(axis, {axis_kind(labels[axis]), labels[axis]});
  settle_kinds(axes);
  return axes;
}

}  // namespace mrmf

namespace mrmf::h5 {

// What attributes say of an array's numbers beside netCDF's: units, scales of other conventions, and the attributes of
// a virtual data set's sources.

namespace {

constexpr hssize_t kMostNumbers = 16;     // numbers of one attribute: a scale for each of a few bands
constexpr std::size_t kMostSources = 64;  // sources of a virtual data set whose attributes are looked at

/// An open data set, and what its attributes are called: many are asked for, and most are not there.
struct SaidAttributes {
  hid_t object;
  std::vector<std::string> names;

  explicit SaidAttributes(const Dataset& dataset) : object(dataset.get()), names(attribute_names(object)) {}
  bool has(const std::string& name) const { return std::ranges::find(names, name) != names.end(); }
  bool has_any(const std::vector<std::string>& some) const {
    return std::ranges::any_of(some, [this](const std::string& name) { return has(name); });
  }
};

/// Numbers of an attribute, in as many digits as their type has; all of them once where they are the same.
template <typename Number>
std::string numbers_text(const Attribute& attribute, hid_t memory, hssize_t count) {
  std::vector<Number> numbers(static_cast<std::size_t>(count));
  if (H5Aread(attribute.get(), memory, numbers.data()) < 0) return "";
  std::string text = shortest_text(numbers.front());
  if (std::ranges::all_of(numbers, [&](Number one) { return one == numbers.front(); })) return text;
  for (auto one = numbers.begin() + 1; one != numbers.end(); ++one) text += " " + shortest_text(*one);
  return text;
}

/// A text that is a number, as programs write which keep all attributes as texts; else "".
std::string number_in(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\0'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? shortest_text(number) : "";
}

/// The number that an attribute holds, or some; "" where it holds none, or is not there.
std::string number_text(const SaidAttributes& from, const std::string& name) {
  if (!from.has(name)) return "";
  const Attribute attribute(H5Aopen(from.object, name.c_str(), H5P_DEFAULT));
  if (!attribute) return "";
  const Type type(H5Aget_type(attribute.get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_STRING) return number_in(text_of(attribute));
  const Space space(H5Aget_space(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 1 || count > kMostNumbers) return "";
  if (kind == H5T_INTEGER) return numbers_text<long long>(attribute, H5T_NATIVE_LLONG, count);
  if (kind != H5T_FLOAT) return "";
  return H5Tget_size(type.get()) > sizeof(float) ? numbers_text<double>(attribute, H5T_NATIVE_DOUBLE, count)
                                                 : numbers_text<float>(attribute, H5T_NATIVE_FLOAT, count);
}

/// The first of these attributes that says something.
std::string units_of(const SaidAttributes& from) {
  for (const char* const name : {"units", "unit", "Units"}) {  // netCDF and most; NWB and others; HDF-EOS5
    if (!from.has(name)) continue;
    const Attribute attribute(H5Aopen(from.object, name, H5P_DEFAULT));
    std::string text = attribute ? text_of(attribute) : "";
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    if (!text.empty()) return text;
  }
  return "";
}

/// Attributes as "NAME = number, ...", each once.
class Said {
 public:
  explicit Said(const SaidAttributes& from) : from_(from) {}
  /// `plain`: the number that changes nothing.
  void add(const std::string& name, const std::string& plain) {
    const std::string number = name.empty() ? "" : number_text(from_, name), one = name + " = " + number;
    if (number.empty() || (", " + all_ + ", ").find(", " + one + ", ") != std::string::npos) return;
    all_ += (all_.empty() ? "" : ", ") + one;
    changes_ = changes_ || number != plain;
  }
  const std::string& all() const { return all_; }
  bool changes() const { return changes_; }

 private:
  const SaidAttributes& from_;
  std::string all_;
  bool changes_ = false;
};

Said scales_of(const SaidAttributes& from) {
  const bool netcdf = from.has_any({"scale_factor", "add_offset"});
  Said said(from);
  for (const OtherScale& one : other_scales()) {
    if (netcdf && one.instead_of_netcdf) continue;
    const std::string beside = one.beside;
    if (!beside.empty() && !from.has(beside)) continue;
    if (number_text(from, one.scale).empty()) continue;
    said.add(one.scale, "1");
    said.add(one.offset, "0");
  }
  return said;
}

/// Marks of missing numbers that nothing applies; not read beside netCDF's own.
std::string marks_of(const SaidAttributes& from) {
  Said said(from);
  if (!from.has_any({"_FillValue", "missing_value"}))
    for (const char* const name : {"MissingValue", "FillValue"}) said.add(name, "nan");
  return said.changes() ? said.all() : "";
}

/// The attributes of netCDF of a source, but for those that change nothing; "none".
std::string netcdf_of(const SaidAttributes& from) {
  std::string all;
  for (const std::string& name : packing_attributes()) {
    Said said(from);
    said.add(name, name == "scale_factor" ? "1" : name == "add_offset" ? "0" : "nan");
    if (said.changes()) all += (all.empty() ? "" : ", ") + said.all();
  }
  return all.empty() ? "none" : all;
}

/// What is not applied of the attributes of a virtual data set's sources, where it has none of its own.
std::string not_applied_of_sources(const Dataset& dataset, const SaidAttributes& from) {
  const Properties creation(H5Dget_create_plist(dataset.get()));
  if (H5Pget_layout(creation.get()) != H5D_VIRTUAL || from.has_any(packing_attributes())) return "";
  std::size_t count = 0;
  if (H5Pget_virtual_count(creation.get(), &count) < 0) return "";
  const std::string file = file_of(dataset.get());
  std::vector<std::pair<std::string, std::string>> found;  // the first source of each kind: its file and attributes
  for (std::size_t i = 0; i < count; i += std::max<std::size_t>(1, count / kMostSources)) {
    const SourceName named = source_name(creation, i), name = named.numbered() ? named.with_number(0) : named;
    const OpenSource open = open_source(file, name.file, file + ": a virtual data set");
    const Target target = open.file ? follow(open.file.get(), name.dataset) : Target{};
    if (!is_dataset(target)) continue;
    const Dataset source(H5Dopen2(target.file, target.name.c_str(), H5P_DEFAULT));
    if (!source) continue;
    const std::string said = netcdf_of(SaidAttributes(source));
    if (std::ranges::find(found, said, &std::pair<std::string, std::string>::second) == found.end())
      found.emplace_back(open.path, said);
  }
  if (found.empty() || (found.size() == 1 && found.front().second == "none")) return "";
  const auto text = [](const auto& one) { return one.second + " (" + one.first + ")"; };
  const std::string only =
      "of virtual data sets their own attributes count, and those of its sources are not applied: ";
  if (found.size() == 1) return only + text(found.front()) + "; give it these attributes";
  return only + "they differ, " + text(found[0]) + " and " + text(found[1]) +
         "; copy what these numbers mean into an array of its own";
}

}  // namespace

NumbersSaid numbers_said(const Dataset& dataset, PackingRule rule) {
  const SaidAttributes from(dataset);
  NumbersSaid found{units_of(from), ""};
  if (rule == PackingRule::ignore) return found;
  const Said scales = scales_of(from);
  found.units = units_text(found.units, scales.all());
  std::string own = scales.changes() ? scales.all() : "";
  if (const std::string marks = marks_of(from); !marks.empty()) own += (own.empty() ? "" : ", ") + marks;
  if (!own.empty())
    found.not_applied = own + (own.find(", ") == std::string::npos ? " is" : " are") +
                        " not applied; store what these numbers mean, or name the attributes scale_factor, "
                        "add_offset and _FillValue, which are";
  if (const std::string sources = not_applied_of_sources(dataset, from); !sources.empty())
    found.not_applied += (found.not_applied.empty() ? "" : "; ") + sources;
  return found;
}

}  // namespace mrmf::h5
