#include "io/data_file.hpp"

#include <filesystem>

#include "io/input_file.hpp"

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

}  // namespace

DataFile::DataFile(const std::string& path) : path_(path) {
  const h5::Lock lock;
  h5::silence();
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) h5::check_readable(path);  // which says what to do
  const InputFile regular(path);                                               // throws if it is not
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
