// HDF5 files written through OutputFile by a file driver of ours, and copies of data sets, attributes and names from
// one file into another.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "io/hdf5/driver_and_copy.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"

namespace mrmf::h5 {

// The HDF5 library's file driver that writes through OutputFile; declared in driver_and_copy.hpp.

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

// Copies of data sets, attributes and names from one HDF5 file into another; declared in driver_and_copy.hpp.

namespace {

herr_t list_attribute(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

/// False for references, which would lead elsewhere in another file.
bool copy_attribute(hid_t from, hid_t to, const char* name, const std::string& what) {
  const Attribute source(H5Aopen(from, name, H5P_DEFAULT));
  require(bool(source), what + " cannot be opened");
  const Type type(H5Aget_type(source.get()));
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) > 0) return false;
  const Space space(H5Aget_space(source.get()));
  const auto elements = static_cast<std::size_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.get()), 0));
  Attribute target(H5Acreate2(to, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (elements == 0) {  // nothing can be read from it
    require(target && target.close(), what + " cannot be written");
    return true;
  }
  std::vector<std::byte> value(elements * H5Tget_size(type.get()));
  require(H5Aread(source.get(), type.get(), value.data()) >= 0, what + " cannot be read");
  const bool written = target && H5Awrite(target.get(), type.get(), value.data()) >= 0 && target.close();
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, value.data());
  constexpr std::size_t most = 65000;  // what HDF5 keeps of attributes in files that all of its versions read
  const std::string advice = value.size() < most ? ""
                                                 : "; it has " + std::to_string(value.size()) +
                                                       " bytes, and copies have room for 64 KiB: shorten it, or store "
                                                       "it as a data set";
  require(written, what + " cannot be written" + advice);
  return true;
}

bool lies_elsewhere(const Dataset& dataset) {
  const Properties creation(H5Dget_create_plist(dataset.get()));
  return H5Pget_layout(creation.get()) == H5D_VIRTUAL || H5Pget_external_count(creation.get()) > 0;
}

// Copies some rows at a time, as they are stored.
void copy_values(const Dataset& from, const Dataset& to, const Type& type, const std::string& what) {
  const Space space(H5Dget_space(from.get()));
  const int axes = H5Sget_simple_extent_ndims(space.get());
  std::array<hsize_t, H5S_MAX_RANK> extent{}, first{};
  H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  const auto elements = static_cast<hsize_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.get()), 0));
  if (elements == 0) return;
  const hsize_t rows = axes == 0 ? 1 : extent[0], row = elements / rows * H5Tget_size(type.get());
  constexpr hsize_t most = hsize_t{1} << 26;  // bytes in memory at once
  const hsize_t step = std::clamp<hsize_t>(most / row, 1, rows);
  std::vector<std::byte> values;
  for (hsize_t done = 0; done < rows; done += step) {
    auto count = extent;
    if (axes > 0) {
      first[0] = done, count[0] = std::min(step, rows - done);
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
    }
    const Space memory(H5Screate_simple(axes, count.data(), nullptr));
    values.resize(static_cast<std::size_t>(row * (axes == 0 ? 1 : count[0])));
    require(H5Dread(from.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, values.data()) >= 0,
            what + " cannot be read");
    const bool written = H5Dwrite(to.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, values.data()) >= 0;
    H5Dvlen_reclaim(type.get(), memory.get(), H5P_DEFAULT, values.data());
    require(written, what + " cannot be written");
  }
}

// The original's layout and filters; contiguous when its values lie elsewhere.
Properties creation_of(const Dataset& from, bool elsewhere) {
  Properties creation(elsewhere ? H5Pcreate(H5P_DATASET_CREATE) : H5Dget_create_plist(from.get()));
  H5Pset_obj_track_times(creation.get(), false);
  return creation;
}

// A contiguous data set may not grow.
void fix_extent(const Space& space) {
  const int axes = H5Sget_simple_extent_ndims(space.get());
  if (axes <= 0) return;
  std::vector<hsize_t> extent(static_cast<std::size_t>(axes));
  H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  H5Sset_extent_simple(space.get(), axes, extent.data(), extent.data());
}

}  // namespace

void copy_attributes(const CopyLocations& locations, const std::string& object,
                     const std::vector<std::string>& except) {
  const Target source = follow(locations.from, object);
  const Object here(source.there ? H5Oopen(source.file, source.name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID);
  const Object there(H5Oopen(locations.to, object.c_str(), H5P_DEFAULT));
  require(here && there, locations.source + ": '" + object + "' cannot be opened");
  std::vector<std::string> names;
  hsize_t first = 0;
  require(H5Aiterate2(here.get(), H5_INDEX_NAME, H5_ITER_INC, &first, list_attribute, &names) >= 0,
          locations.source + ": the attributes of '" + object + "' cannot be listed");
  for (const std::string& name : names)
    if (H5Aexists(there.get(), name.c_str()) == 0 && std::ranges::find(except, name) == except.end() &&
        !copy_attribute(here.get(), there.get(), name.c_str(),
                        locations.source + ": attribute '" + name + "' of '" + object + "' for " + locations.target))
      locations.left_out.references[name].push_back("'" + object + "'");
}

void copy_dataset(const CopyLocations& locations, const std::string& name, const std::vector<std::string>& except) {
  const std::string what = locations.source + ": data set '" + name + "' for " + locations.target;
  const Target source = follow(locations.from, name);
  const Dataset from(source.there ? H5Dopen2(source.file, source.name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID);
  require(bool(from), what + " cannot be opened");
  require_filters(from, what);
  const bool elsewhere = lies_elsewhere(from);
  const Type stored(H5Dget_type(from.get())), type(H5Tcopy(stored.get()));  // a named type belongs to its own file
  const Space space(H5Dget_space(from.get()));
  if (elsewhere) fix_extent(space);
  const Properties links(H5Pcreate(H5P_LINK_CREATE)), creation = creation_of(from, elsewhere);
  H5Pset_create_intermediate_group(links.get(), 1);
  Dataset to(H5Dcreate2(locations.to, name.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT));
  require(bool(to), what + " cannot be created");
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) <= 0)
    copy_values(from, to, type, what);
  else  // would lead elsewhere in another file
    locations.left_out.others.push_back("the references that '" + name + "' holds");
  require(to.close(), what + " cannot be written");
  copy_attributes(locations, name, except);
}

namespace {

void make_group(const CopyLocations& locations, const std::string& name) {
  const Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_obj_track_times(creation.get(), false);
  Group made(H5Gcreate2(locations.to, name.c_str(), links.get(), creation.get(), H5P_DEFAULT));
  require(made && made.close(), locations.target + ": group '" + name + "' cannot be created");
}

void make_link(const CopyLocations& locations, const FurtherName& name) {
  const Properties links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  const herr_t made =
      name.soft
          ? H5Lcreate_soft(name.of.c_str(), locations.to, name.name.c_str(), links.get(), H5P_DEFAULT)
          : H5Lcreate_hard(locations.to, name.of.c_str(), locations.to, name.name.c_str(), links.get(), H5P_DEFAULT);
  require(made >= 0, locations.target + ": link '" + name.name + "' cannot be created");
}

}  // namespace

void copy_names(const CopyLocations& locations, const FileNames& names) {
  for (const std::string& group : names.groups) {
    if (!follow(locations.to, group).there) make_group(locations, group);
    copy_attributes(locations, group);
  }
  for (const FurtherName& name : names.further) {
    if (name.soft || follow(locations.to, name.of).there)
      make_link(locations, name);
    else
      locations.left_out.others.push_back("'" + name.name + "', another name of '" + name.of + "'");
  }
  for (const std::string& type : names.types) locations.left_out.others.push_back("the type '" + type + "'");
  for (const BrokenLink& link : names.broken)
    if (std::ranges::find(names.further, link.name, &FurtherName::name) == names.further.end())
      locations.left_out.others.push_back(link.text());
}

std::vector<std::string> texts_of(const LeftOut& left_out) {
  constexpr std::size_t most = 4;
  std::vector<std::string> texts;
  for (const auto& [attribute, objects] : left_out.references) {
    std::string text = "the references in attribute '" + attribute + "' of ";
    for (std::size_t i = 0; i < std::min(most, objects.size()); ++i) text += (i == 0 ? "" : ", ") + objects[i];
    if (objects.size() > most) text += " and " + std::to_string(objects.size() - most) + " more";
    texts.push_back(std::move(text));
  }
  texts.insert(texts.end(), left_out.others.begin(), left_out.others.end());
  return texts;
}

}  // namespace mrmf::h5
