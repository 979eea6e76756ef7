#include "io/hdf5/links.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

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
