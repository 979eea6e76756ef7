// Reading: names, shapes, rows as float32, texts. Every rank reads by itself; nothing here waits for another rank.
#include <algorithm>
#include <cstring>
#include <memory>

#include "io/hdf5_blocks.hpp"
#include "io/hdf5_state.hpp"
#include "io/hdf5_types.hpp"
#include "kernels/nearest.hpp"

namespace mrmf {
namespace h5 {

bool exists(hid_t file, const std::string& name) {
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1))
    if (H5Lexists(file, name.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) return false;
  return !name.empty() && H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
}

bool is_dataset(hid_t file, const std::string& name) {
  if (!exists(file, name)) return false;
  const Object object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
  return object && H5Iget_type(object.get()) == H5I_DATASET;
}

std::vector<std::string> dataset_names(hid_t file, const std::string& group) {
  std::vector<std::string> names;
  H5G_info_t facts{};
  if (H5Gget_info_by_name(file, group.c_str(), &facts, H5P_DEFAULT) < 0) return names;
  for (hsize_t i = 0; i < facts.nlinks; ++i) {
    char name[1024] = {};
    H5Lget_name_by_idx(file, group.c_str(), H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    if (is_dataset(file, group == "/" ? name : group + "/" + name)) names.emplace_back(name);
  }
  return names;
}

Space select(hid_t file_space, const Block& block) {
  const std::vector<hsize_t> first(block.first.begin(), block.first.end());
  const std::vector<hsize_t> count(block.count.begin(), block.count.end());
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
  const auto elements = static_cast<hsize_t>(block.elements);
  return Space(H5Screate_simple(1, &elements, nullptr));
}

}  // namespace h5

namespace {

/// Bytes per read. Types that are converted pass through a buffer of the smaller size.
constexpr Index largest_read = Index{1} << 30;
constexpr Index largest_converted_read = Index{1} << 26;

std::string missing(const std::string& path, const std::string& name, hid_t file) {
  const std::size_t slash = name.rfind('/');
  std::string group = slash == std::string::npos || slash == 0 ? "/" : name.substr(0, slash);
  if (group != "/" && !h5::exists(file, group)) group = "/";
  const std::vector<std::string> there = h5::dataset_names(file, group);
  std::string list;
  for (const std::string& other : there) list += (list.empty() ? "" : ", ") + other;
  std::string text = path + ": no data set '" + name + "'; ";
  text += there.empty() ? "there is none" : "there are " + list;
  if (group != "/") text += " in " + group;
  const std::string meant = nearest(name.substr(slash == std::string::npos ? 0 : slash + 1), there);
  return meant.empty() ? text : text + "; do you mean '" + meant + "'?";
}

h5::Dataset open_dataset(const std::string& path, hid_t file, const std::string& name) {
  if (!h5::exists(file, name)) throw DataError(missing(path, name, file));
  if (!h5::is_dataset(file, name)) throw DataError(path + ": '" + name + "' is a group, not a data set");
  h5::Dataset dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  h5::require(bool(dataset), path + ": data set '" + name + "' cannot be opened");
  return dataset;
}

std::vector<Index> shape_of(hid_t space) {
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

/// The string that a data set or attribute of one element holds; `read` fills a buffer given the memory type.
template <typename Read>
std::string string_of(hid_t file_type, hid_t space, const std::string& what, Read&& read) {
  if (H5Tget_class(file_type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1)
    throw DataError(what + " is not one string");
  const h5::Type type(H5Tcopy(file_type));
  if (H5Tis_variable_str(file_type) > 0) {
    char* text = nullptr;
    h5::require(read(type.get(), &text) >= 0, what + " cannot be read");
    std::string result = text == nullptr ? "" : text;
    H5Dvlen_reclaim(type.get(), space, H5P_DEFAULT, &text);
    return result;
  }
  std::string text(H5Tget_size(file_type), '\0');
  h5::require(read(type.get(), text.data()) >= 0, what + " cannot be read");
  text.resize(std::strlen(text.c_str()));
  return text;
}

struct RowReader {
  h5::Dataset dataset;
  h5::Space space;
  ElementType type;
  h5::Type memory;
  std::string what;

  void read(const h5::Block& block, void* to) const {
    const h5::Space target = h5::select(space.get(), block);
    h5::require(H5Dread(dataset.get(), memory.get(), target.get(), space.get(), H5P_DEFAULT, to) >= 0,
                what + " cannot be read from row " + std::to_string(block.first[0]));
  }
};

}  // namespace

bool Hdf5File::has(const std::string& dataset) const { return h5::is_dataset(state_->file.get(), dataset); }

std::vector<std::string> Hdf5File::datasets() const { return h5::dataset_names(state_->file.get(), "/"); }

DatasetInfo Hdf5File::info(const std::string& name) const {
  const h5::Dataset dataset = open_dataset(state_->path, state_->file.get(), name);
  const h5::Space space(H5Dget_space(dataset.get()));
  const h5::Type type(H5Dget_type(dataset.get()));
  return {shape_of(space.get()), h5::element_type(type.get()), h5::describe(type.get())};
}

void Hdf5File::read_rows(const std::string& name, Index first, Index count, Span out) const {
  RowReader reader{open_dataset(state_->path, state_->file.get(), name), {}, ElementType::other, {}, state_->at(name)};
  reader.space = h5::Space(H5Dget_space(reader.dataset.get()));
  const h5::Type file_type(H5Dget_type(reader.dataset.get()));
  reader.type = h5::element_type(file_type.get());
  if (reader.type == ElementType::other)
    throw DataError(reader.what + " holds " + h5::describe(file_type.get()) + " elements; " + readable_types());
  reader.memory = h5::memory_type(reader.type, file_type.get());

  const std::vector<Index> shape = shape_of(reader.space.get());
  if (shape.empty()) throw DataError(reader.what + " is a single value; rows of an array are wanted");
  if (first < 0 || count < 0 || first + count > shape[0])
    throw DataError(reader.what + " has " + std::to_string(shape[0]) + " rows; rows " + std::to_string(first) + " to " +
                    std::to_string(first + count - 1) + " were asked for");
  const bool direct = reader.type == ElementType::float32;
  const auto element_bytes = static_cast<Index>(h5::size_of(reader.type));
  const auto parts = h5::blocks(shape, first, count, (direct ? largest_read : largest_converted_read) / element_bytes);
  std::size_t wanted = 0, done = 0, largest = 0;
  for (const h5::Block& block : parts) {
    wanted += static_cast<std::size_t>(block.elements);
    largest = std::max(largest, static_cast<std::size_t>(block.elements));
  }
  MRMF_CHECK(out.size() == wanted, reader.what);
  const auto raw = std::make_unique_for_overwrite<std::byte[]>(direct ? 0 : largest * h5::size_of(reader.type));
  for (const h5::Block& block : parts) {
    const Span part = out.subspan(done, static_cast<std::size_t>(block.elements));
    reader.read(block, direct ? static_cast<void*>(part.data()) : raw.get());
    if (!direct) h5::to_float32(reader.type, raw.get(), part);
    done += part.size();
  }
}

std::string Hdf5File::read_text(const std::string& name) const {
  const h5::Dataset dataset = open_dataset(state_->path, state_->file.get(), name);
  const h5::Space space(H5Dget_space(dataset.get()));
  const h5::Type type(H5Dget_type(dataset.get()));
  return string_of(type.get(), space.get(), state_->at(name), [&](hid_t memory, void* to) {
    return H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
  });
}

std::string Hdf5File::read_attribute(const std::string& name) const {
  if (H5Aexists(state_->file.get(), name.c_str()) <= 0) return "";
  const std::string what = state_->path + ": attribute '" + name + "'";
  const h5::Attribute attribute(H5Aopen(state_->file.get(), name.c_str(), H5P_DEFAULT));
  h5::require(bool(attribute), what + " cannot be opened");
  const h5::Space space(H5Aget_space(attribute.get()));
  const h5::Type type(H5Aget_type(attribute.get()));
  return string_of(type.get(), space.get(), what,
                   [&](hid_t memory, void* to) { return H5Aread(attribute.get(), memory, to); });
}

}  // namespace mrmf
