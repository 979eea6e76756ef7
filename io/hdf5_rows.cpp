#include "io/hdf5_rows.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "io/hdf5_state.hpp"
#include "io/hdf5_types.hpp"
#include "kernels/nearest.hpp"

namespace mrmf::h5 {
namespace {

/// A chunk that is one row is wanted once, and parts of a row are wanted together: none need stay, though chunks that
/// are not packed are read a piece at a time unless there is room for one. Of longer chunks, those of one row stay: the
/// next row is in them.
ChunkMemory chunk_memory(const Storage& storage, const std::vector<Index>& shape, Index element_bytes) {
  const std::vector<Index>& chunk = storage.chunk;
  Index bytes = element_bytes, of_row = 1;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    bytes *= chunk[axis];
    if (axis > 0) of_row *= (shape[axis] + chunk[axis] - 1) / chunk[axis];
  }
  ChunkMemory memory;
  if (chunk.front() > 1)
    memory.cache = of_row * bytes;
  else if (of_row > 1)
    memory.cache = bytes;
  if (storage.filtered) memory.unpacking = 2 * bytes;
  return memory;
}

std::string missing(const std::string& path, const std::string& name, hid_t file) {
  const std::size_t slash = name.rfind('/');
  std::string group = slash == std::string::npos || slash == 0 ? "/" : name.substr(0, slash);
  if (group != "/" && !exists(file, group)) group = "/";
  const std::vector<std::string> there = dataset_names(file, group);
  std::string list;
  for (const std::string& other : there) list += (list.empty() ? "" : ", ") + other;
  std::string text = path + ": no data set '" + name + "'; ";
  text += there.empty() ? "there is none" : "there are " + list;
  if (group != "/") text += " in " + group;
  const std::string meant = nearest(name.substr(slash == std::string::npos ? 0 : slash + 1), there);
  return meant.empty() ? text : text + "; do you mean '" + meant + "'?";
}

Properties chunk_cache(const Storage& storage, const std::vector<Index>& shape, Index most_cached) {
  Properties access(H5Pcreate(H5P_DATASET_ACCESS));
  Index chunks = 1;
  for (std::size_t axis = 1; axis < storage.chunk.size(); ++axis)
    chunks *= (shape[axis] + storage.chunk[axis] - 1) / storage.chunk[axis];
  const Index cached = std::min(storage.memory.cache, most_cached);
  H5Pset_chunk_cache(access.get(), static_cast<std::size_t>(100 * chunks + 1), static_cast<std::size_t>(cached), 1.0);
  return access;
}

Storage storage_of(const Dataset& dataset, const Type& memory, const std::vector<Index>& shape) {
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
    storage.memory = chunk_memory(storage, shape, static_cast<Index>(H5Tget_size(file_type.get())));
  }
  const bool plain = storage.contiguous && H5Pget_external_count(creation.get()) == 0;
  if (plain && H5Tequal(file_type.get(), memory.get()) > 0) {
    const haddr_t offset = H5Dget_offset(dataset.get());
    if (offset != HADDR_UNDEF) storage.offset = static_cast<Index>(offset);
  }
  return storage;
}

}  // namespace

std::vector<Index> shape_of(hid_t space) {
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

Dataset open_dataset(const std::string& path, hid_t file, const std::string& name) {
  if (!exists(file, name)) throw DataError(missing(path, name, file));
  if (!is_dataset(file, name)) throw DataError(path + ": '" + name + "' is a group, not a data set");
  Dataset dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  h5::require(bool(dataset), path + ": data set '" + name + "' cannot be opened");
  return dataset;
}

Rows::Rows(const std::string& path, hid_t file, const std::string& name, Index most_cached)
    : dataset_(open_dataset(path, file, name)),
      space_(H5Dget_space(dataset_.get())),
      what_(path + ": data set '" + name + "'") {
  const Type file_type(H5Dget_type(dataset_.get()));
  type_ = element_type(file_type.get());
  if (type_ == ElementType::other)
    throw DataError(what_ + " holds " + describe(file_type.get()) + " elements; " + readable_types());
  memory_ = memory_type(type_, file_type.get());
  shape_ = shape_of(space_.get());
  if (shape_.empty()) throw DataError(what_ + " is a single value; rows of an array are wanted");
  storage_ = storage_of(dataset_, memory_, shape_);
  if (storage_.chunk.empty()) return;
  const Properties access = chunk_cache(storage_, shape_, most_cached);
  dataset_.close();
  dataset_ = Dataset(H5Dopen2(file, name.c_str(), access.get()));
  h5::require(bool(dataset_), what_ + " cannot be opened");
}

void Rows::require(Index first, Index count) const {
  if (first >= 0 && count >= 0 && first + count <= shape_[0]) return;
  throw DataError(what_ + " has " + std::to_string(shape_[0]) + " rows; rows " + std::to_string(first) + " to " +
                  std::to_string(first + count - 1) + " were asked for");
}

std::optional<std::string> Rows::try_read(const Block& block, void* to) const {
  const Space target = select(space_.get(), block);
  if (H5Dread(dataset_.get(), memory_.get(), target.get(), space_.get(), H5P_DEFAULT, to) >= 0) return std::nullopt;
  return last_error();
}

// When several rows cannot be read together, the row that is to blame is looked for.
void Rows::read(const Block& block, void* to) const {
  std::optional<std::string> reason = try_read(block, to);
  if (!reason) return;
  Index row = block.first[0];
  for (Index i = 0; block.count[0] > 1 && i < block.count[0]; ++i) {
    Block one = block;
    one.first[0] += i;
    one.count[0] = 1;
    one.elements /= block.count[0];
    const std::optional<std::string> why = try_read(one, to);
    if (!why) continue;
    reason = why;
    row = one.first[0];
    break;
  }
  throw DataError(what_ + " cannot be read from row " + std::to_string(row) + (reason->empty() ? "" : "; " + *reason) +
                  "; copy the file or make it again");
}

}  // namespace mrmf::h5
