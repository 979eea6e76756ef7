#include "io/attribute_names.hpp"

#include "io/data_file.hpp"
#include "io/hdf5_links.hpp"
#include "io/hdf5_rows.hpp"
#include "io/hdf5_types.hpp"

namespace mrmf {
namespace {

using Attributes = std::vector<std::pair<std::string, DatasetInfo>>;

herr_t add_attribute(hid_t object, const char* name, const H5A_info_t*, void* attributes) {
  const h5::Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (!attribute) return 0;
  const h5::Space space(H5Aget_space(attribute.get()));
  const h5::Type type(H5Aget_type(attribute.get()));
  DatasetInfo info;
  const h5::Element element = h5::element_of(type.get());
  info.shape = h5::shape_of(space.get(), element);
  info.type = info.stored = element.type;
  info.whole = info.type != ElementType::other && !is_float(info.type);
  info.type_name = h5::describe(type.get());
  info.words = H5Tget_class(type.get()) == H5T_STRING;
  static_cast<Attributes*>(attributes)->emplace_back(name, info);
  return 0;
}

}  // namespace

std::vector<std::pair<std::string, DatasetInfo>> attributes_of(const std::string& path, const std::string& object) {
  const h5::Lock lock;
  const DataFile file(path);
  Attributes attributes;
  h5::Object owner(H5Oopen(file.id(), "/", H5P_DEFAULT));
  const h5::Target target = object.empty() ? h5::Target{} : h5::follow(file.id(), object);
  if (!object.empty())
    owner = target.there ? h5::Object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT)) : h5::Object{};
  if (owner) H5Aiterate2(owner.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_attribute, &attributes);
  return attributes;
}

}  // namespace mrmf
