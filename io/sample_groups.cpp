#include "io/sample_groups.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "io/edit_distance.hpp"
#include "io/hdf5_library.hpp"
#include "io/hdf5_links.hpp"
#include "io/row_source.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

herr_t add_link(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

/// All links of a group, whatever they lead to, by name.
std::vector<std::string> links_of(hid_t group) {
  std::vector<std::string> names;
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_link, &names);
  return names;
}

h5::Group open_group(hid_t file, const std::string& path) {
  if (path.empty()) return h5::Group(H5Gopen2(file, "/", H5P_DEFAULT));
  const h5::Target target = h5::follow(file, path);
  if (!target.there) return {};
  const h5::Object object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT));
  if (!object || H5Iget_type(object.get()) != H5I_GROUP) return {};
  return h5::Group(H5Gopen2(target.file, target.name.c_str(), H5P_DEFAULT));
}

/// Adds the groups below `above` that fit the rest of a pattern.
void add_groups(hid_t file, const std::string& above, const std::string& pattern, std::vector<std::string>& groups) {
  const h5::Group group = open_group(file, above);
  if (!group) return;
  const std::size_t slash = pattern.find('/');
  const std::string first = pattern.substr(0, slash);
  for (const std::string& name : links_of(group.get())) {
    if (::fnmatch(first.c_str(), name.c_str(), FNM_NOESCAPE) != 0) continue;
    const std::string path = above.empty() ? name : above + "/" + name;
    if (slash != std::string::npos)
      add_groups(file, path, pattern.substr(slash + 1), groups);
    else if (open_group(file, path))
      groups.push_back(path);
  }
}

/// The arrays that a sample's group holds.
std::vector<std::string> arrays_of(const DatasetSpec& spec) {
  std::vector<std::string> arrays = spec.sample_names();
  for (const std::string& name : spec.label_names())
    if (name.find('@') == std::string::npos) arrays.push_back(name);
  return arrays;
}

[[noreturn]] void refuse(const DataFile& file, const std::string& pattern, bool fit, const DatasetSpec& spec) {
  if (fit)
    throw DataError(file.path() + ": none of the groups that fit \"" + pattern + "\" holds a data set '" +
                    spec.samples + "'; correct data.groups, or the name");
  std::vector<std::string> there;
  add_groups(file.id(), "", "*", there);
  throw DataError(file.path() + ": no group fits \"" + pattern + "\"; " +
                  (there.empty() ? "there is no group" : "there are " + list_near(pattern, there)) +
                  "; correct data.groups");
}

}  // namespace

std::vector<std::string> groups_of(const DataFile& file, const DatasetSpec& spec) {
  const h5::Lock lock;
  std::string pattern = spec.groups.empty() ? "*" : spec.groups;
  pattern.erase(0, pattern.find_first_not_of('/'));
  while (pattern.ends_with('/')) pattern.pop_back();
  std::vector<std::string> groups;
  add_groups(file.id(), "", pattern, groups);
  if (groups.empty()) refuse(file, pattern, false, spec);
  if (pattern != "*" && !pattern.ends_with("/*")) return groups;
  const std::vector<std::string> arrays = arrays_of(spec);
  std::erase_if(groups, [&](const std::string& group) {
    return std::ranges::none_of(
        arrays, [&](const std::string& name) { return h5::is_dataset(h5::follow(file.id(), group + "/" + name)); });
  });
  if (groups.empty()) refuse(file, pattern, true, spec);
  return groups;
}

}  // namespace mrmf
