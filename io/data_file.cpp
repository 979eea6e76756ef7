#include "io/data_file.hpp"

#include <sys/stat.h>

#include "io/hdf5_file.hpp"
#include "kernels/check.hpp"

namespace mrmf {
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
