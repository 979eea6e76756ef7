#include "io/hdf5/conventions.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "io/hdf5/rows.hpp"
#include "io/hdf5/types.hpp"

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
} catch (const DataError&) {  // of a damaged attribute
  return {};
}

// The names that a text holds, with blanks between them.
void add_names(const Dataset& dataset, const char* attribute, std::vector<std::string>& names) {
  std::istringstream text(single_text(dataset.get(), attribute));
  for (std::string name; text >> name;) names.push_back(name);
}

// "seconds since 1970-01-01", as CF and netCDF's tools have it.
bool are_of_times(const std::string& units) {
  static const std::string since = " since ";
  const std::size_t at = units.find(since), date = at + since.size();
  return at != std::string::npos && at > 0 && date < units.size() && units[date] >= '0' && units[date] <= '9';
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
} catch (const DataError&) {  // of a damaged attribute
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
  if (const std::string units = single_text(dataset.get(), "units"); are_of_times(units)) roles.times = units;
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
