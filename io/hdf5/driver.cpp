// The HDF5 library's file driver that writes through OutputFile; declared in writing.hpp.
#include "io/hdf5/writing.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace mrmf::h5 {

template <typename Action>
void DriverFile::remember(const Action& action) noexcept {
  try {
    if (!error_) action();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void DriverFile::check() const {
  if (error_) std::rethrow_exception(error_);
}

// HDF5 rewrites its structures again and again while the file grows, so they stay in memory. Data go to the file.
void DriverFile::write(bool data, haddr_t at, std::span<const std::byte> bytes) noexcept {
  remember([&] {
    if (data) {
      output_->write(at, bytes);
      return;
    }
    // Merge the bytes with all runs that they touch.
    haddr_t first = at, last = at + bytes.size();
    auto from = structures_.upper_bound(at);
    if (from != structures_.begin() && std::prev(from)->first + std::prev(from)->second.size() >= at) --from;
    auto to = from;
    for (; to != structures_.end() && to->first <= last; ++to) {
      first = std::min(first, to->first);
      last = std::max(last, to->first + to->second.size());
    }
    if (std::distance(from, to) == 1 && from->first == first && from->second.size() == last - first) {
      std::ranges::copy(bytes, from->second.begin() + static_cast<std::ptrdiff_t>(at - first));
      return;
    }
    std::vector<std::byte> run(last - first);
    for (auto one = from; one != to; ++one)
      std::ranges::copy(one->second, run.begin() + static_cast<std::ptrdiff_t>(one->first - first));
    std::ranges::copy(bytes, run.begin() + static_cast<std::ptrdiff_t>(at - first));
    structures_.erase(from, to);
    structures_.emplace(first, std::move(run));
  });
}

void DriverFile::read(haddr_t at, std::span<std::byte> to) noexcept {
  std::ranges::fill(to, std::byte{0});  // in case the read below fails
  remember([&] {
    output_->read(at, to);
    for (const auto& [first, run] : structures_) {
      const haddr_t begin = std::max(at, first), end = std::min(at + to.size(), first + run.size());
      for (haddr_t i = begin; i < end; ++i) to[i - at] = run[i - first];
    }
  });
}

void DriverFile::extend(haddr_t end) noexcept { end_ = end; }

void DriverFile::close() noexcept {
  remember([&] {
    for (const auto& [first, run] : structures_) output_->write(first, run);
    structures_.clear();
    output_->resize(end_);
  });
}

namespace {

/// The library's handle of an open file. The library's own part comes first.
struct Handle {
  H5FD_t library{};
  DriverFile* file = nullptr;
};

DriverFile& of(H5FD_t* file) { return *reinterpret_cast<Handle*>(file)->file; }
const DriverFile& of(const H5FD_t* file) { return *reinterpret_cast<const Handle*>(file)->file; }

H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
  const auto* driver_file = static_cast<DriverFile* const*>(H5Pget_driver_info(access));
  if (driver_file == nullptr) return nullptr;
  auto handle = std::make_unique<Handle>();
  handle->file = *driver_file;
  return &handle.release()->library;  // close() takes it back
}

herr_t close(H5FD_t* file) {
  const std::unique_ptr<Handle> handle(reinterpret_cast<Handle*>(file));
  handle->file->close();
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA |
           H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of(const H5FD_t* file, H5FD_mem_t) { return of(file).end(); }

herr_t set_end(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  of(file).extend(end);
  return 0;
}

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t size, void* to) {
  of(file).read(at, {static_cast<std::byte*>(to), size});
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t at, std::size_t size, const void* from) {
  of(file).write(kind == H5FD_MEM_DRAW, at, {static_cast<const std::byte*>(from), size});
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 14, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 77);  // above the library's own values
#endif
  driver.name = "mrmf";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverFile*);
  driver.open = open;
  driver.close = close;
  driver.query = query;
  driver.get_eoa = end_of;
  driver.set_eoa = set_end;
  driver.get_eof = end_of;
  driver.read = read;
  driver.write = write;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::ranges::copy(map, driver.fl_map);
  return driver;
}

}  // namespace

File DriverFile::create() {
  const H5FD_class_t driver = driver_class();
  const Driver id(H5FDregister(&driver));  // an open file keeps the driver registered
  const Properties access = write_access(), creation(H5Pcreate(H5P_FILE_CREATE));
  DriverFile* const self = this;
  require(id && H5Pset_driver(access.get(), id.get(), static_cast<const void*>(&self)) >= 0,
          output_->target() + ": HDF5 takes no driver");
  H5Pset_obj_track_times(creation.get(), false);
  File file(H5Fcreate(output_->path().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  check();
  require(bool(file), output_->target() + ": cannot be created");
  return file;
}

}  // namespace mrmf::h5
