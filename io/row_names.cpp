#include "io/row_names.hpp"

#include "io/hdf5_library.hpp"
#include "io/hdf5_links.hpp"
#include "kernels/check.hpp"

namespace mrmf {

RowName RowName::of(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos) return {name, ""};
  return {name.substr(0, at), name.substr(at + 1)};
}

RowName name_in(const DataFile& file, const std::string& group, const std::string& name) {
  const std::string path = group.empty() ? name : group + (name.starts_with('@') ? "" : "/") + name;
  if (name.find('@') == std::string::npos) return {path, ""};
  const h5::Lock lock;
  if (h5::is_dataset(h5::follow(file.id(), path))) return {path, ""};
  return RowName::of(name.starts_with("/@") ? name.substr(1) : path);
}

std::string owner_text(const RowName& name) { return name.object.empty() ? "of the file" : "of '" + name.object + "'"; }

std::string attribute_text(const std::string& path, const RowName& name) {
  return path + ": attribute '" + name.attribute + "' " + owner_text(name);
}

h5::Object owner_of(const DataFile& file, const RowName& name) {
  if (name.object.empty()) return h5::Object(H5Oopen(file.id(), "/", H5P_DEFAULT));
  const h5::Target target = h5::follow(file.id(), name.object);
  if (!target.there)
    throw DataError(file.path() + ": no '" + name.object + "' that could have an attribute '" + name.attribute + "'" +
                    (target.broken.empty() ? "" : "; it " + target.broken));
  return h5::Object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT));
}

}  // namespace mrmf
