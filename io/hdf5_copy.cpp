#include "io/hdf5_copy.hpp"

#include <algorithm>

#include "io/hdf5_handle.hpp"
#include "io/hdf5_lock.hpp"

namespace mrmf {
namespace {

h5::File open(const std::string& path, unsigned mode) {
  h5::silence();
  const h5::Properties access = mode == H5F_ACC_RDWR ? h5::write_access() : h5::file_access();
  h5::File file(H5Fopen(path.c_str(), mode, access.get()));
  h5::require(bool(file), path + ": cannot be opened");
  return file;
}

herr_t add_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

void copy_attribute(hid_t from, hid_t to, const char* name, const std::string& what) {
  const h5::Attribute source(H5Aopen(from, name, H5P_DEFAULT));
  h5::require(bool(source), what + " cannot be opened");
  const h5::Type type(H5Aget_type(source.get()));
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) > 0) return;
  const h5::Space space(H5Aget_space(source.get()));
  std::vector<std::byte> value(
      static_cast<std::size_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.get()), 0)) *
      H5Tget_size(type.get()));
  h5::require(H5Aread(source.get(), type.get(), value.data()) >= 0, what + " cannot be read");
  const h5::Attribute target(H5Acreate2(to, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  const bool written = target && H5Awrite(target.get(), type.get(), value.data()) >= 0;
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, value.data());
  h5::require(written, what + " cannot be written");
}

herr_t add_attribute(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

std::vector<std::string> all_datasets(const std::string& path) {
  const h5::Lock lock;
  const h5::File file = open(path, H5F_ACC_RDONLY);
  std::vector<std::string> names;
  h5::require(H5Ovisit2(file.get(), H5_INDEX_NAME, H5_ITER_INC, add_dataset, &names, H5O_INFO_BASIC) >= 0,
              path + ": its contents cannot be listed");
  std::ranges::sort(names);
  return names;
}

void copy_datasets(const std::string& source, const std::vector<std::string>& names, const std::string& target) {
  const h5::Lock lock;
  const h5::File from = open(source, H5F_ACC_RDONLY);
  h5::File to = open(target, H5F_ACC_RDWR);
  const h5::Properties links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  for (const std::string& name : names)
    h5::require(H5Ocopy(from.get(), name.c_str(), to.get(), name.c_str(), H5P_DEFAULT, links.get()) >= 0,
                source + ": data set '" + name + "' cannot be copied to " + target);
  h5::require(to.close(), target + ": cannot be closed");
}

void copy_attributes(const std::string& source, const std::vector<std::string>& objects, const std::string& target) {
  const h5::Lock lock;
  const h5::File from = open(source, H5F_ACC_RDONLY);
  h5::File to = open(target, H5F_ACC_RDWR);
  for (const std::string& object : objects) {
    const h5::Object here(H5Oopen(from.get(), object.c_str(), H5P_DEFAULT));
    const h5::Object there(H5Oopen(to.get(), object.c_str(), H5P_DEFAULT));
    h5::require(here && there, source + ": '" + object + "' cannot be opened");
    std::vector<std::string> names;
    hsize_t first = 0;
    h5::require(H5Aiterate2(here.get(), H5_INDEX_NAME, H5_ITER_INC, &first, add_attribute, &names) >= 0,
                source + ": the attributes of '" + object + "' cannot be listed");
    for (const std::string& name : names)
      if (H5Aexists(there.get(), name.c_str()) == 0)
        copy_attribute(here.get(), there.get(), name.c_str(),
                       source + ": attribute '" + name + "' of '" + object + "' for " + target);
  }
  h5::require(to.close(), target + ": cannot be closed");
}

}  // namespace mrmf
