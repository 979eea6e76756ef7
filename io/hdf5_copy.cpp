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

}  // namespace mrmf
