#include "io/hdf5/library.hpp"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"

namespace mrmf::h5 {
namespace {

herr_t take_first(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

}  // namespace

void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string last_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  for (char& c : text)
    if (c == '\n') c = ' ';
  const bool descriptors = text.find(std::strerror(EMFILE)) != std::string::npos;
  return text.empty() ? text : "HDF5 says: " + text + (descriptors ? "; raise `ulimit -n`, or use more ranks" : "");
}

void fail(const std::string& what) {
  const std::string reason = last_error();
  throw DataError(reason.empty() ? what : what + "; " + reason);
}

Properties file_access() {
  Properties access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_sec2(access.get());
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

File open_to_read(const std::string& path, const Properties& access, std::string& reason) {
  File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (file) return file;
  reason = last_error();
  if (reason.find("locking flag") == std::string::npos) return file;
  hbool_t locks = true, lax = true;
  H5Pget_file_locking(Properties(H5Pcreate(H5P_FILE_ACCESS)).get(), &locks, &lax);
  const Properties own(H5Pcopy(access.get()));
  H5Pset_file_locking(own.get(), locks, lax);
  file = File(H5Fopen(path.c_str(), H5F_ACC_RDONLY, own.get()));
  reason = file ? "" : last_error();
  return file;
}

File open_to_read(const std::string& path) {
  silence();
  std::string reason;
  File file = open_to_read(path, file_access(), reason);
  if (!file) check_readable(path);  // which says why, where it can
  if (!file) throw DataError(path + ": cannot be opened; " + reason);
  return file;
}

Properties write_access() {
  Properties access = file_access();
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  return access;
}

}  // namespace mrmf::h5

namespace mrmf {

std::string hdf5_version() {
  const h5::Lock lock;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

namespace {

/// The library would keep up to 32 MiB of chunk indices per file, but the part for a row is used only once.
void limit_index_memory(const h5::Properties& access) {
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access.get(), &cache) < 0) return;
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = std::size_t{1} << 20;
  cache.max_size = std::size_t{1} << 22;
  H5Pset_mdc_config(access.get(), &cache);
}

/// Every open file has a cache whose table alone takes half a megabyte. By default the library gives it back when the
/// file is closed, and gets it anew, zeroed page by page by the system, for the next one, which takes longer than all
/// else that opening a small file takes.
void keep_freed_tables() {
  constexpr int kMiB = 1 << 20, kKiB = 1 << 10;
  // All but the first two are the library's own limits: of single blocks, arrays and blocks of any size.
  H5set_free_list_limits(8 * kMiB, 4 * kMiB, 4 * kMiB, 256 * kKiB, 16 * kMiB, kMiB);
}

}  // namespace

DataFile::DataFile(const std::string& path) : path_(path) {
  const h5::Lock lock;
  h5::silence();
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) h5::check_readable(path);  // which says what it is
  keep_freed_tables();
  const h5::Properties access = h5::file_access();
  limit_index_memory(access);
  std::string reason;
  file_ = h5::open_to_read(path, access, reason);
  if (!file_) h5::check_readable(path);
  if (!file_) throw DataError(path + ": cannot be opened; " + reason);
}

DataFile::~DataFile() {
  const h5::Lock lock;
  file_.close();
}

}  // namespace mrmf
