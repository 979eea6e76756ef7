// Names in HDF5 files: the links that lead from a name to an object, and the names of all objects of a file.
#include "io/hdf5/links.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/rows.hpp"

namespace mrmf::h5 {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 16;  // on the way to an object, as many as the library follows

}  // namespace

bool is_regular(const std::string& path, const std::string& from, std::string& why) {
  std::error_code trouble;
  const fs::file_type type = fs::status(path, trouble).type();
  if (type == fs::file_type::regular) return true;
  if (type == fs::file_type::not_found) return false;
  if (type == fs::file_type::none) {
    why = "which cannot be looked at (" + trouble.message() + ")";
    return false;
  }
  throw DataError(from + " leads to " + path + ", which is " +
                  (type == fs::file_type::directory ? "a folder"
                   : type == fs::file_type::fifo    ? "a FIFO (named pipe)"
                   : type == fs::file_type::socket  ? "a socket"
                                                    : "a device") +
                  ", not a file; put the file in its place, or leave that data set out");
}

OpenSource open_first(const std::vector<std::string>& candidates, const Properties& access, const std::string& from) {
  OpenSource none;
  for (const std::string& candidate : candidates) {
    std::string why, reason;
    if (is_regular(candidate, from, why)) {
      if (File file = open_to_read(candidate, access, reason); file) return {std::move(file), candidate};
      why = H5Fis_hdf5(candidate.c_str()) == 0 ? "which is not an HDF5 file" : "which cannot be opened; " + reason;
    }
    if (why.empty() || none.there) continue;
    none.why = why;
    none.there = true;
  }
  return none;
}

std::vector<std::string> candidate_paths(const std::string& path, const std::string& name, const char* variable) {
  std::vector<std::string> candidates;
  fs::path file = name;
  if (file.is_absolute()) {
    candidates.push_back(name);
    file = file.filename();
  }
  std::error_code unknown;
  if (const char* const folders = std::getenv(variable)) {
    std::istringstream words(folders);
    for (std::string folder; std::getline(words, folder, ':');)
      if (!folder.empty()) candidates.push_back((fs::path(folder) / file).string());
  }
  candidates.push_back((fs::absolute(path, unknown).parent_path() / file).string());
  candidates.push_back(file.string());
  candidates.push_back((fs::canonical(path, unknown).parent_path() / file).string());
  return candidates;
}

std::string file_of(hid_t object) {
  std::string path(static_cast<std::size_t>(std::max<ssize_t>(H5Fget_name(object, nullptr, 0), 0)), '\0');
  H5Fget_name(object, path.data(), path.size() + 1);
  return path;
}

ObjectIdentity identity_of(hid_t object) {
  H5O_info_t facts{};
  H5Oget_info2(object, &facts, H5O_INFO_BASIC);
  return {file_identity(file_of(object)).value_or(FileIdentity{}), facts.addr};
}

std::unique_ptr<InputFile> plain_file_of(hid_t object) {
  const File file(H5Iget_file_id(object));
  void* number = nullptr;  // the number of the file that the library has open: an int, with file_access()'s driver
  if (H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &number) < 0 || number == nullptr) return {};
  FileDescriptor same(::fcntl(*static_cast<const int*>(number), F_DUPFD_CLOEXEC, 0));
  return same ? std::make_unique<InputFile>(std::move(same)) : nullptr;
}

namespace {

/// Adds the parts of a path to those that are still to be looked up; the next one is the last of the list.
void add_parts(const std::string& path, std::vector<std::string>& rest) {
  std::vector<std::string> parts;
  std::istringstream words(path);
  for (std::string part; std::getline(words, part, '/');)
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  rest.insert(rest.end(), std::make_move_iterator(parts.rbegin()), std::make_move_iterator(parts.rend()));
}

/// The way along a name, one part after another.
class LinkWalk {
 public:
  LinkWalk(hid_t file, const std::string& name) : first_(file), name_(name) {
    found_.file = file;
    add_parts(name, rest_);
    own_ = rest_.size();
  }

  Target end() {
    while (!rest_.empty() && found_.broken.empty())
      if (!step()) return std::move(found_);
    found_.there = found_.broken.empty();
    if (found_.name.empty()) found_.name = "/";
    return std::move(found_);
  }

 private:
  /// False where there is no such name.
  bool step() {
    const bool of_link = rest_.size() > own_;
    const std::string path = found_.name + "/" + rest_.back();
    rest_.pop_back();
    own_ = std::min(own_, rest_.size());
    H5L_info_t link{};
    if (H5Lget_info(found_.file, path.c_str(), &link, H5P_DEFAULT) < 0) {
      if (of_link) break_off("which is not there");
      return false;
    }
    if (link.type == H5L_TYPE_HARD)
      found_.name = path;
    else if (++links_ > most_links)
      found_.broken = "leads through more than " + std::to_string(most_links) + " links, perhaps in a circle" + advice;
    else
      go(path, link);
    return true;
  }

  void go(const std::string& path, const H5L_info_t& link) {
    std::vector<char> value(link.u.val_size + 1, '\0');
    const bool known = link.type == H5L_TYPE_SOFT || link.type == H5L_TYPE_EXTERNAL;
    if (!known || H5Lget_val(found_.file, path.c_str(), value.data(), link.u.val_size, H5P_DEFAULT) < 0) {
      found_.broken = std::string("is a link of a kind that cannot be followed") + advice;
    } else if (link.type == H5L_TYPE_SOFT) {
      const std::string to = value.data();
      leads_ = "'" + to + "'";
      if (to.starts_with('/')) found_.name.clear();
      add_parts(to, rest_);
    } else {
      const char *other = nullptr, *object = nullptr;
      unsigned flags = 0;
      if (H5Lunpack_elink_val(value.data(), link.u.val_size, &flags, &other, &object) < 0) {
        found_.broken = std::string("is a link to another file that cannot be understood") + advice;
        return;
      }
      leads_ = "'" + std::string(object) + "' of " + other;
      open(other);
      found_.name.clear();
      add_parts(object, rest_);
    }
  }

  void open(const std::string& name) {
    const Properties access = file_access();
    H5AC_cache_config_t cache{};
    cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
    if (H5Fget_mdc_config(found_.file, &cache) >= 0) H5Pset_mdc_config(access.get(), &cache);
    OpenSource open = open_first(candidate_paths(file_of(found_.file), name, "HDF5_EXT_PREFIX"), access,
                                 file_of(first_) + ": '" + name_ + "'");
    if (!open.file) return break_off(open.why);
    found_.files.push_back(open.path);
    found_.file = open.file.get();
    found_.other = std::move(open.file);
  }

  void break_off(const std::string& why) { found_.broken = "leads to " + leads_ + ", " + why + advice; }

  static constexpr const char* advice = "; make the link again, or put in its place what it should lead to";

  hid_t first_;              // the file that was asked,
  const std::string& name_;  // and the name
  Target found_;
  std::vector<std::string> rest_;  // the next one last
  std::size_t own_ = 0;            // so many of these, the first, are of the name that was asked for, not of links
  std::string leads_;              // where the last link leads
  int links_ = 0;
};

}  // namespace

Target follow(hid_t file, const std::string& name) { return LinkWalk(file, name).end(); }

bool is_dataset(const Target& target) {
  if (!target.there) return false;
  const Object object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT));
  return object && H5Iget_type(object.get()) == H5I_DATASET;
}

}  // namespace mrmf::h5

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
