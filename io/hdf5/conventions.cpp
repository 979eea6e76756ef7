#include "io/hdf5/conventions.hpp"

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
std::string single_text(const Dataset& dataset, const char* name) try {
  if (H5Aexists(dataset.get(), name) <= 0) return {};
  const Attribute attribute(H5Aopen(dataset.get(), name, H5P_DEFAULT));
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
  std::istringstream text(single_text(dataset, attribute));
  for (std::string name; text >> name;) names.push_back(name);
}

// "seconds since 1970-01-01", as CF and netCDF's tools have it.
bool are_of_times(const std::string& units) {
  static const std::string since = " since ";
  const std::size_t at = units.find(since), date = at + since.size();
  return at != std::string::npos && at > 0 && date < units.size() && units[date] >= '0' && units[date] <= '9';
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
  if (const std::string units = single_text(dataset, "units"); are_of_times(units)) roles.times = units;
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
