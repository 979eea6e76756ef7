#include "io/hdf5/rows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"

namespace mrmf::h5 {
namespace {

/// Appends the part of `box` from `axis` on. All axes before it have count 1.
void append(const ContiguousBox& box, std::size_t axis, Index limit, std::vector<ContiguousBox>& result) {
  const Index inner = std::accumulate(box.count.begin() + static_cast<std::ptrdiff_t>(axis) + 1, box.count.end(),
                                      Index{1}, std::multiplies<>());
  const bool fits = inner <= limit || axis + 1 == box.count.size();
  const Index step = fits ? std::max<Index>(limit / inner, 1) : 1;
  for (Index done = 0; done < box.count[axis]; done += step) {
    ContiguousBox part = box;
    part.first[axis] += done;
    part.count[axis] = std::min(step, box.count[axis] - done);
    part.elements = part.count[axis] * inner;
    if (fits) {
      result.push_back(std::move(part));
    } else {
      append(part, axis + 1, limit, result);
    }
  }
}

Index chunks_along(Index first, Index count, Index chunk) {
  return count == 0 ? 0 : (first + count - 1) / chunk - first / chunk + 1;
}

}  // namespace

Index chunks_of(const ContiguousBox& box, const std::vector<Index>& chunk) {
  Index all = 1;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis)
    all = saturated_product(all, chunks_along(box.first[axis], box.count[axis], chunk[axis]));
  return all;
}

void for_each_chunk_group(const ContiguousBox& box, const std::vector<Index>& chunk, Index most,
                          const std::function<void(const ContiguousBox&)>& visit) {
  const std::size_t axes = chunk.size();
  std::vector<Index> step(axes);  // chunks per group along each axis, from the last axis on
  for (std::size_t axis = axes; axis-- > 0;) {
    step[axis] =
        std::clamp<Index>(chunks_along(box.first[axis], box.count[axis], chunk[axis]), 1, std::max<Index>(most, 1));
    most /= step[axis];
  }
  const auto set = [&](ContiguousBox& part, std::size_t axis, Index from) {
    const Index end = box.first[axis] + box.count[axis];
    part.first[axis] = from;
    part.count[axis] = std::min((from / chunk[axis] + step[axis]) * chunk[axis], end) - from;
  };
  ContiguousBox part = box;
  for (std::size_t axis = 0; axis < axes; ++axis) set(part, axis, box.first[axis]);
  for (;;) {
    part.elements = std::accumulate(part.count.begin(), part.count.end(), Index{1}, std::multiplies<>());
    visit(part);
    std::size_t axis = axes;
    while (axis-- > 0) {
      const Index next = part.first[axis] + part.count[axis];
      if (next < box.first[axis] + box.count[axis]) {
        set(part, axis, next);
        break;
      }
      set(part, axis, box.first[axis]);
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

std::vector<ContiguousBox> blocks(const std::vector<Index>& shape, Index first, Index count, Index limit) {
  ContiguousBox all{std::vector<Index>(shape.size(), 0), shape, 0};
  all.first[0] = first;
  all.count[0] = count;
  return blocks(all, limit);
}

std::vector<ContiguousBox> blocks(const ContiguousBox& box, Index limit) {
  std::vector<ContiguousBox> result;
  if (std::find(box.count.begin(), box.count.end(), 0) == box.count.end()) append(box, 0, limit, result);
  return result;
}

namespace {

/// Chunks that one call of the library reads. It first makes a selection for each of them.
constexpr Index most_chunks = 64;

/// How many chunks the library's cache keeps. A chunk of one row is needed once, and the parts of a row are needed
/// together, so none need stay. But chunks without filters are read piece by piece unless there is room for one. Of
/// longer chunks, all those of a row stay: they also hold the next row.
struct ChunkCache {
  double chunks = 0, bytes = 0;  // chunks that stay, and bytes of each; from a file, so perhaps beyond any Index
  double at_once = 0;            // chunks that one call of the library touches

  ChunkCache(const Storage& storage, const std::vector<Index>& shape)
      : bytes(static_cast<double>(storage.element_bytes)) {
    double of_row = 1;
    for (std::size_t axis = 0; axis < storage.chunk.size(); ++axis) {
      bytes *= static_cast<double>(storage.chunk[axis]);
      if (axis > 0) of_row *= std::ceil(static_cast<double>(shape[axis]) / static_cast<double>(storage.chunk[axis]));
    }
    chunks = storage.chunk.front() > 1 ? of_row : std::min(of_row - 1, 1.0);
    at_once = std::min(of_row, static_cast<double>(most_chunks));
  }

  static constexpr double few_chunks = 16;
  // The library keeps at most one chunk per slot of its table, so there are many slots (at most a prime).
  double slots() const { return std::min(100 * chunks + 1, 1048583.0); }
  // Besides its elements, a chunk that stays has a record of its place. For a few chunks that is negligible.
  double memory() const {
    constexpr double record = 512, slot = sizeof(void*);
    return chunks * bytes + (chunks > few_chunks ? chunks * record + slots() * slot : 0);
  }
  // While chunks are read, each has its own selections, and part of their index stays (io/rows/sample_reader.cpp).
  double reading() const {
    constexpr double selections = 16384, index = 1 << 22;
    return at_once > few_chunks ? at_once * selections + index : 0;
  }
  void fit(Index most) {
    if (memory() > static_cast<double>(most)) chunks *= static_cast<double>(most) / memory();
  }
};

Index whole_bytes(double bytes) { return static_cast<Index>(std::min(bytes, static_cast<double>(kMostElements))); }

ChunkMemory chunk_memory(const Storage& storage, const ChunkCache& cache) {
  return {whole_bytes(cache.memory()), whole_bytes(cache.reading() + (storage.filtered ? 2 * cache.bytes : 0))};
}

std::string missing(const std::string& path, const std::string& name, hid_t file) {
  const std::size_t slash = name.rfind('/');
  std::string group = slash == std::string::npos || slash == 0 ? "/" : name.substr(0, slash);
  if (group != "/" && !follow(file, group).there) group = "/";
  const std::vector<std::string> there = dataset_names(file, group);
  const std::string wanted = name.substr(slash == std::string::npos ? 0 : slash + 1);
  std::string text = path + ": no data set '" + name + "'; ";
  text += there.empty() ? "there is none" : "there are " + list_near(wanted, there);
  if (group != "/") text += " in " + group;
  const std::string meant = nearest(wanted, there);
  return meant.empty() ? text : text + "; do you mean '" + meant + "'?";
}

// HDF5 2 writes layouts that earlier libraries do not know.
bool is_of_newer_library(const std::string& reason) { return reason.find("version number") != std::string::npos; }

[[noreturn]] void refuse_to_open(const std::string& path, const std::string& what) {
  const std::string reason = last_error();
  const bool newer = is_of_newer_library(reason);
  throw DataError(what + " cannot be opened" + (reason.empty() ? "" : "; " + reason) +
                  (newer ? "; a newer HDF5 than " + hdf5_version() +
                               " wrote it: with that one's tools, `h5repack --low=0 --high=1 " + path +
                               " NEW.h5` stores it for this one"
                         : ""));
}

Properties chunk_access(const ChunkCache& cache) {
  Properties access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_chunk_cache(access.get(), static_cast<std::size_t>(cache.slots()),
                     static_cast<std::size_t>(cache.chunks * cache.bytes), 1.0);
  return access;
}

Storage storage_of(const Dataset& dataset, const Type& memory, const std::vector<Index>& shape, bool whole,
                   const std::string& what) {
  const Properties creation(H5Dget_create_plist(dataset.get()));
  const Type file_type(H5Dget_type(dataset.get()));
  Storage storage;
  storage.filtered = H5Pget_nfilters(creation.get()) > 0;
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  storage.contiguous = layout == H5D_CONTIGUOUS;
  if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> sizes(H5S_MAX_RANK);
    sizes.resize(static_cast<std::size_t>(std::max(H5Pget_chunk(creation.get(), H5S_MAX_RANK, sizes.data()), 0)));
    storage.chunk.assign(sizes.begin(), sizes.end());
    if (whole) storage.chunk.insert(storage.chunk.begin(), 1);
    const bool sound =
        storage.chunk.size() == shape.size() && std::ranges::find(storage.chunk, 0) == storage.chunk.end();
    if (!sound) throw DataError(what + " has chunks of shape " + shape_text(storage.chunk) + "; make the file again");
    storage.element_bytes = static_cast<Index>(H5Tget_size(file_type.get()));
    storage.memory = chunk_memory(storage, ChunkCache(storage, shape));
  }
  const bool plain = storage.contiguous && H5Pget_external_count(creation.get()) == 0;
  storage.elsewhere = layout == H5D_VIRTUAL || H5Pget_external_count(creation.get()) > 0;
  if (plain && H5Tequal(file_type.get(), memory.get()) > 0) {
    const haddr_t offset = H5Dget_offset(dataset.get());
    if (offset != HADDR_UNDEF) storage.offset = static_cast<Index>(offset);
  }
  return storage;
}

}  // namespace

std::vector<Index> shape_of(hid_t space, const Element& element) {
  if (H5Sget_simple_extent_type(space) == H5S_NULL) return {0};  // as h5py's Empty: not even a single value
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  std::vector<Index> shape(sizes.begin(), sizes.end());
  if (!shape.empty()) shape.insert(shape.end(), element.axes.begin(), element.axes.end());
  return shape;
}

namespace {

/// Where a data set lies that must be there.
Target find_dataset(const std::string& path, hid_t file, const std::string& name) {
  Target target = follow(file, name);
  if (!target.there && target.broken.empty()) throw DataError(missing(path, name, file));
  if (!target.there) throw DataError(path + ": data set '" + name + "' " + target.broken);
  return target;
}

Dataset open_target(const Target& target, const std::string& path, const std::string& name) {
  const std::string what = path + ": data set '" + name + "'";
  if (!is_dataset(target)) {
    if (is_of_newer_library(last_error())) refuse_to_open(path, what);
    throw DataError(path + ": '" + name + "' is a group, not a data set");
  }
  Dataset dataset(H5Dopen2(target.file, target.name.c_str(), H5P_DEFAULT));
  if (!dataset) refuse_to_open(path, what);
  require_sound_sources(dataset, what);
  return dataset;
}

}  // namespace

Dataset open_dataset(const std::string& path, hid_t file, const std::string& name) {
  return open_target(find_dataset(path, file, name), path, name);
}

Rows::Rows(const std::string& path, hid_t file, const std::string& name, const RowsOpening& opening)
    : whole_(opening.whole), what_(path + ": data set '" + name + "'") {
  const Target target = find_dataset(path, file, name);
  dataset_ = open_target(target, path, name);
  space_ = Space(H5Dget_space(dataset_.get()));
  const Type file_type(H5Dget_type(dataset_.get()));
  element_ = element_of(file_type.get());
  if (element_.type == ElementType::other)
    throw DataError(what_ + " holds " + describe(file_type.get()) + " elements; " + readable_types());
  packing_ = opening.packing == PackingRule::ignore ? Packing{.stored = element_.type}
                                                    : packing_of(dataset_, element_.type, what_);
  NumbersSaid said = numbers_said(dataset_, opening.packing);
  units_ = std::move(said.units);
  packing_.not_applied = std::move(said.not_applied);
  memory_ = memory_type(file_type.get());
  std::vector<Index> stored = shape_of(space_.get(), {});
  if (whole_) stored.insert(stored.begin(), 1);
  shape_ = stored;
  if (!stored.empty()) shape_.insert(shape_.end(), element_.axes.begin(), element_.axes.end());
  require_countable(shape_, what_);
  if (shape_.empty()) throw DataError(what_ + " is a single value; rows of an array are wanted");
  require_filters(dataset_, what_);
  storage_ = storage_of(dataset_, memory_, stored, whole_, what_);
  if (!target.files.empty()) storage_.elsewhere = true;
  if (storage_.chunk.empty()) return;
  ChunkCache cache(storage_, shape_);
  cache.fit(opening.most_cached);
  const Properties access = chunk_access(cache);
  dataset_.close();
  dataset_ = Dataset(H5Dopen2(target.file, target.name.c_str(), access.get()));
  h5::require(bool(dataset_), what_ + " cannot be opened");
}

void Rows::require_written() const { h5::require_written(dataset_, what_); }

NumberNames Rows::number_names() const {
  return h5::number_names(dataset_.get(), Type(H5Dget_type(dataset_.get())).get());
}

ObjectIdentity Rows::object() const { return identity_of(dataset_.get()); }

std::unique_ptr<InputFile> Rows::plain_file() const {
  return storage_.offset ? plain_file_of(dataset_.get()) : nullptr;
}

void Rows::require(Index first, Index count) const {
  if (first >= 0 && count >= 0 && first + count <= shape_[0]) return;
  throw DataError(what_ + " has " + std::to_string(shape_[0]) + " rows; rows " + std::to_string(first) + " to " +
                  std::to_string(first + count - 1) + " were asked for");
}

ContiguousBox Rows::in_file(ContiguousBox block) const {
  if (!whole_) return block;
  block.first.erase(block.first.begin());
  block.count.erase(block.count.begin());
  return block;
}

Space Rows::selected(const ContiguousBox& block) const {
  const ContiguousBox own = in_file(block);
  if (!own.count.empty()) return select(space_.get(), own);
  H5Sselect_all(space_.get());  // a single value has no axes to select along
  return Space(H5Screate(H5S_SCALAR));
}

std::optional<std::string> Rows::try_read(const ContiguousBox& block, void* to) const {
  std::optional<std::string> reason;
  const auto read_into = [&](const Space& target) {
    if (reason || H5Dread(dataset_.get(), memory_.get(), target.get(), space_.get(), H5P_DEFAULT, to) >= 0) return;
    reason = last_error();
  };
  if (storage_.chunk.empty() || chunks_of(block, storage_.chunk) <= most_chunks) {
    read_into(selected(block));
    return reason;
  }
  for_each_chunk_group(block, storage_.chunk, most_chunks, [&](const ContiguousBox& part) {
    selected(part);
    ContiguousBox in_memory = part;
    for (std::size_t axis = 0; axis < part.first.size(); ++axis) in_memory.first[axis] -= block.first[axis];
    const std::vector<Index> count = in_file(block).count;
    const std::vector<hsize_t> sizes(count.begin(), count.end());
    const Space target(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    select(target.get(), in_file(in_memory));
    read_into(target);
  });
  return reason;
}

void Rows::read(const ContiguousBox& block, void* to) const {
  if (packing_.in_place()) {
    read_stored(block, to);
    if (!packing_.plain()) packing_.unpack(to, block.elements, to);
    return;
  }
  const auto stored =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(block.elements * size_of(packing_.stored)));
  read_stored(block, stored.get());
  packing_.unpack(stored.get(), block.elements, to);
}

void Rows::read_stored(const ContiguousBox& block, void* to) const {
  if (element_.axes.empty()) return read_elements(block, to);
  const auto axes = static_cast<std::ptrdiff_t>(block.first.size() - element_.axes.size());
  ContiguousBox stored = block;
  stored.first.resize(static_cast<std::size_t>(axes));
  stored.count.resize(static_cast<std::size_t>(axes));
  stored.elements = std::accumulate(stored.count.begin(), stored.count.end(), Index{1}, std::multiplies<>());
  if (std::equal(block.count.begin() + axes, block.count.end(), element_.axes.begin()))
    return read_elements(stored, to);
  std::vector<Index> wanted{0};  // which numbers of an element are in the block
  for (std::size_t axis = 0; axis < element_.axes.size(); ++axis) {
    std::vector<Index> next;
    for (const Index number : wanted)
      for (Index i = 0; i < block.count[static_cast<std::size_t>(axes) + axis]; ++i)
        next.push_back(number * element_.axes[axis] + block.first[static_cast<std::size_t>(axes) + axis] + i);
    wanted = std::move(next);
  }
  const Index size = size_of(element_.type);
  const auto bytes = static_cast<Index>(H5Tget_size(memory_.get()));
  std::vector<std::byte> whole(static_cast<std::size_t>(stored.elements * bytes));
  read_elements(stored, whole.data());
  auto* next = static_cast<std::byte*>(to);
  for (Index i = 0; i < stored.elements; ++i)
    for (const Index number : wanted) next = std::copy_n(whole.data() + i * bytes + number * size, size, next);
}

// When several rows cannot be read together, looks for the row at fault.
void Rows::read_elements(const ContiguousBox& block, void* to) const {
  std::optional<std::string> reason = try_read(block, to);
  if (!reason) return;
  Index row = block.first[0];
  for (Index i = 0; block.count[0] > 1 && i < block.count[0]; ++i) {
    ContiguousBox one = block;
    one.first[0] += i;
    one.count[0] = 1;
    one.elements /= block.count[0];
    const std::optional<std::string> why = try_read(one, to);
    if (!why) continue;
    reason = why;
    row = one.first[0];
    break;
  }
  if (const auto missing = missing_filter(dataset_, false)) throw DataError(what_ + " " + *missing);
  throw DataError(what_ + " cannot be read" + (whole_ ? "" : " from row " + std::to_string(row)) +
                  (reason->empty() ? "" : "; " + *reason) + "; copy the file or make it again");
}

}  // namespace mrmf::h5
