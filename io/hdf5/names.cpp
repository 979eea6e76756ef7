#include "io/hdf5/file.hpp"

#include <algorithm>
#include <optional>

#include "io/hdf5/library.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"
#include "io/hdf5/types_and_filters.hpp"

namespace mrmf {
namespace {

struct Link {
  std::string name;
  H5L_type_t type;
};

herr_t add_link(hid_t, const char* name, const H5L_info_t* info, void* links) {
  static_cast<std::vector<Link>*>(links)->push_back({name, info->type});
  return 0;
}

ObjectIdentity identity(const FileIdentity& file, const H5O_info_t& object) { return {file, object.addr}; }

FileIdentity identity_of_file(hid_t file) { return file_identity(h5::file_of(file)).value_or(FileIdentity{}); }

/// What a soft link holds.
std::string held_by(hid_t file, const std::string& name) {
  H5L_info_t link{};
  if (H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT) < 0) return "";
  std::string text(link.u.val_size + 1, '\0');
  H5Lget_val(file, name.c_str(), text.data(), text.size(), H5P_DEFAULT);
  return text.c_str();
}

/// Hard links come first, then those to other files, at last soft ones: so every object has the name that leads there
/// most directly.
class Listing {
 public:
  explicit Listing(hid_t file) : file_(file) {
    H5O_info_t root{};
    H5Oget_info2(file_, &root, H5O_INFO_BASIC);
    names_.first.emplace(identity(identity_of_file(file_), root), "/");
    list(file_, "/", "", true);
    for (std::size_t i = 0; i < external_.size(); ++i)
      follow_external(std::string(external_[i]));  // which may find more
    for (const Soft& link : soft_) follow_soft(link);
    std::ranges::sort(names_.datasets);
  }
  FileNames take() { return std::move(names_); }

 private:
  struct Soft {
    std::string name;
    bool here;  // in the file itself
  };

  /// The links of a group, which are called `prefix` and their own name.
  void list(hid_t file, const std::string& path, const std::string& prefix, bool here) {
    const h5::Group group(H5Gopen2(file, path.c_str(), H5P_DEFAULT));
    std::vector<Link> links;
    hsize_t next = 0;
    if (!group || H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, &next, add_link, &links) < 0) {
      damaged(file, prefix, here);
      return;
    }
    const FileIdentity owner = identity_of_file(file);
    for (const Link& link : links) {
      const std::string name = prefix + link.name;
      if (link.type == H5L_TYPE_SOFT)
        soft_.push_back({name, here});
      else if (link.type != H5L_TYPE_HARD)
        external_.push_back(name);
      else if (H5O_info_t object{};
               H5Oget_info_by_name2(group.get(), link.name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT) >= 0)
        add({file, path == "/" ? "/" + link.name : path + "/" + link.name, name, here}, identity(owner, object),
            object.type);
      else
        damaged(file, name, here);
    }
  }

  /// An object of another file is for those who ask for it.
  void damaged(hid_t file, const std::string& name, bool here) {
    const std::string reason = h5::last_error();
    const std::string why = "cannot be opened" + (reason.empty() ? "" : "; " + reason);
    if (here) throw DataError(h5::file_of(file) + ": its contents cannot be listed: '" + name + "' " + why);
    names_.broken.push_back({name, why});
  }

  struct Found {
    hid_t file;
    std::string path;  // in that file
    std::string name;  // as it is called here
    bool here;
  };
  void add(const Found& found, const ObjectIdentity& object, H5O_type_t type) {
    const auto [known, is_new] = names_.first.emplace(object, found.name);
    if (!is_new) {
      names_.further.push_back({found.name, known->second, false});
    } else if (type == H5O_TYPE_DATASET) {
      names_.datasets.push_back(found.name);
    } else if (type == H5O_TYPE_GROUP) {
      names_.groups.push_back(found.name);
      list(found.file, found.path, found.name + "/", found.here);
    } else {
      names_.types.push_back(found.name);
    }
  }

  /// Nothing where the link leads nowhere, which is noted.
  std::optional<h5::Target> target(const std::string& name) {
    try {
      h5::Target found = h5::follow(file_, name);
      if (found.there) return found;
      names_.broken.push_back({name, found.broken.empty() ? "leads nowhere" : found.broken});
    } catch (const DataError& error) {
      names_.broken.push_back({name, std::string("leads to what is no file: ") + error.what()});
    }
    return {};
  }

  void follow_external(const std::string& name) {
    const std::optional<h5::Target> found = target(name);
    H5O_info_t object{};
    if (!found) return;
    if (H5Oget_info_by_name2(found->file, found->name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      damaged(found->file, name, false);
    else
      add({found->file, found->name, name, false}, identity(identity_of_file(found->file), object), object.type);
  }

  void follow_soft(const Soft& link) {
    const std::optional<h5::Target> found = target(link.name);
    if (link.here) names_.further.push_back({link.name, held_by(file_, link.name), true});
    if (!found || link.here) return;
    H5O_info_t object{};
    H5Oget_info_by_name2(found->file, found->name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT);
    const auto known = names_.first.find(identity(identity_of_file(found->file), object));
    if (known != names_.first.end()) names_.further.push_back({link.name, "/" + known->second, true});
  }

  hid_t file_;
  FileNames names_;
  std::vector<std::string> external_;
  std::vector<Soft> soft_;
};

// Why nobody can read a data set, to follow its name; "" where that would be known by its values alone.
std::string why_unreadable(const std::string& path, hid_t file, const std::string& name) {
  try {
    return h5::missing_filter(h5::open_dataset(path, file, name), true).value_or("");
  } catch (const DataError& error) {
    const std::string why = error.what(), what = path + ": data set '" + name + "' ";
    return why.starts_with(what) ? why.substr(what.size()) : "cannot be read: " + why;
  }
}

}  // namespace

FileNames names_of(const std::string& path) {
  const h5::Lock lock;
  const h5::File file = h5::open_to_read(path);
  return Listing(file.get()).take();
}

void leave_out_unreadable(FileNames& names, const std::string& path,
                          const std::function<bool(const std::string&)>& kept) {
  const h5::Lock lock;
  const h5::File file = h5::open_to_read(path);
  std::erase_if(names.datasets, [&](const std::string& name) {
    if (kept && kept(name)) return false;
    const std::string why = why_unreadable(path, file.get(), name);
    if (!why.empty()) names.broken.push_back({name, why});
    return !why.empty();
  });
}

std::string first_name(const FileNames& names, const std::string& path, const std::string& name) {
  const h5::Lock lock;
  const h5::File file = h5::open_to_read(path);
  const h5::Target found = h5::follow(file.get(), name);
  H5O_info_t object{};
  if (!found.there || H5Oget_info_by_name2(found.file, found.name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
    return name;
  const auto known = names.first.find(identity(identity_of_file(found.file), object));
  return known == names.first.end() ? name : known->second;
}

std::vector<std::string> all_datasets(const std::string& path) { return names_of(path).datasets; }

}  // namespace mrmf
