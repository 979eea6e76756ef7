// Reading: names, shapes, rows as float32, texts. Every rank reads by itself; nothing here waits for another rank.
#include <algorithm>
#include <cstring>
#include <memory>

#include "io/hdf5_lock.hpp"
#include "io/hdf5_rows.hpp"
#include "io/hdf5_state.hpp"
#include "io/hdf5_types.hpp"

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
  // Of the same rank: between unlike ranks the library goes element by element.
  return Space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
}

}  // namespace h5

namespace {

/// Bytes per read. Types that are converted pass through a buffer of the smaller size.
constexpr Index largest_read = Index{1} << 30;
constexpr Index largest_converted_read = Index{1} << 26;

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

}  // namespace

bool Hdf5File::has(const std::string& dataset) const {
  const h5::Lock lock;
  return h5::is_dataset(state_->file.get(), dataset);
}

std::vector<std::string> Hdf5File::datasets() const {
  const h5::Lock lock;
  return h5::dataset_names(state_->file.get(), "/");
}

DatasetInfo Hdf5File::info(const std::string& name) const {
  const h5::Lock lock;
  const h5::Dataset dataset = h5::open_dataset(state_->path, state_->file.get(), name);
  const h5::Space space(H5Dget_space(dataset.get()));
  const h5::Type type(H5Dget_type(dataset.get()));
  return {h5::shape_of(space.get()), h5::element_type(type.get()), h5::describe(type.get())};
}

void Hdf5File::read_rows(const std::string& name, Index first, Index count, Span out) const {
  const h5::Lock lock;
  const h5::Rows rows(state_->path, state_->file.get(), name);
  rows.require(first, count);
  const bool direct = rows.type() == ElementType::float32;
  const Index limit = (direct ? largest_read : largest_converted_read) / size_of(rows.type());
  const auto parts = h5::blocks(rows.shape(), first, count, limit);
  std::size_t wanted = 0, done = 0;
  Index largest = 0;
  for (const h5::Block& block : parts) {
    wanted += static_cast<std::size_t>(block.elements);
    largest = std::max(largest, block.elements);
  }
  MRMF_CHECK(out.size() == wanted, rows.what());
  const auto raw_bytes = static_cast<std::size_t>(direct ? 0 : largest * size_of(rows.type()));
  const auto raw = std::make_unique_for_overwrite<std::byte[]>(raw_bytes);
  for (const h5::Block& block : parts) {
    const Span part = out.subspan(done, static_cast<std::size_t>(block.elements));
    rows.read(block, direct ? static_cast<void*>(part.data()) : raw.get());
    if (!direct) to_float32(rows.type(), raw.get(), part);
    done += part.size();
  }
}

std::string Hdf5File::read_text(const std::string& name) const {
  const h5::Lock lock;
  const h5::Dataset dataset = h5::open_dataset(state_->path, state_->file.get(), name);
  const h5::Space space(H5Dget_space(dataset.get()));
  const h5::Type type(H5Dget_type(dataset.get()));
  return string_of(type.get(), space.get(), state_->at(name), [&](hid_t memory, void* to) {
    return H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
  });
}

std::string Hdf5File::read_attribute(const std::string& name) const {
  const h5::Lock lock;
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
