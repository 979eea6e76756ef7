#include "io/hdf5/file.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "io/files/file_names.hpp"
#include "io/files/input_file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

/// "truncated: ..." from the library's "truncated file: eof = A, sblock->base_addr = B, stored_eof = C"; else "".
std::string truncation(const std::string& reason) {
  const std::string eof = "eof = ", stored = "stored_eof = ";
  const std::size_t there = reason.find(eof), wanted = reason.find(stored);
  if (reason.find("truncated") == std::string::npos || wanted == std::string::npos) return "";
  return "truncated: " + std::to_string(std::stoull(reason.substr(there + eof.size()))) +
         " bytes are there, but its header says " + std::to_string(std::stoull(reason.substr(wanted + stored.size()))) +
         "; copy or make it again";
}

}  // namespace

void h5::check_readable(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) throw DataError(path + ": " + advice_on_folder(path));
  if (InputFile(path).bytes() == 0) throw DataError(path + ": is empty (0 bytes); copy or make it again");
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    if (const std::string advice = advice_on_format(path); !advice.empty()) throw DataError(path + ": " + advice);
    throw DataError(path + ": not an HDF5 file (the HDF5 signature is missing); convert it, or check the path");
  }
  std::string reason;
  if (open_to_read(path, file_access(), reason)) return;
  const std::string cut = truncation(reason);
  throw DataError(path + ": " + (cut.empty() ? "cannot be opened; " + reason : cut));
}

Hdf5File::State::~State() {
  const h5::Lock lock;
  file.close();
}

Hdf5File::Hdf5File(std::unique_ptr<State> state) : state_(std::move(state)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;
Hdf5File::~Hdf5File() = default;

Hdf5File Hdf5File::open(const std::string& path, const Comm& comm, PackingRule packing) {
  const h5::Lock lock;
  h5::silence();
  Comm readers = comm.duplicate();
  collective_try(readers, [&] {
    if (readers.root()) h5::check_readable(path);
  });
  h5::File file;
  collective_try(readers, [&] { file = h5::open_to_read(path); });
  return Hdf5File(std::make_unique<State>(path, std::move(file), packing));
}

namespace h5 {
namespace {

herr_t add_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

/// Whether a name that a message lists is one of a data set. Of links that lead nowhere, that is for their user to
/// find.
bool listed(hid_t file, const std::string& name) {
  try {
    return is_dataset(follow(file, name));
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> dataset_names(hid_t file, const std::string& group) {
  const Target target = follow(file, group);
  std::vector<std::string> names;
  if (!target.there) return names;
  H5Literate_by_name(target.file, target.name.c_str(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names,
                     H5P_DEFAULT);
  std::erase_if(names, [&](const std::string& name) { return !listed(target.file, target.name + "/" + name); });
  return names;
}

Space select(hid_t file_space, const ContiguousBox& block) {
  const std::vector<hsize_t> first(block.first.begin(), block.first.end());
  const std::vector<hsize_t> count(block.count.begin(), block.count.end());
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
  // The memory space has the block's rank: between spaces of different ranks the library copies element by element.
  return Space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
}

}  // namespace h5

namespace {

/// Bytes per read of converted types, which pass through a buffer of this size.
constexpr Index largest_converted_read = Index{1} << 26;

/// Texts of a memory space. `read` fills a buffer, given the type.
template <typename Read>
std::vector<std::string> words_in(hid_t type, hid_t memory, const std::string& what, Read&& read) {
  const auto elements = static_cast<std::size_t>(H5Sget_simple_extent_npoints(memory));
  std::vector<std::string> words;
  const auto add = [&](std::string word) {
    word.resize(word.find_last_not_of(std::string(" \0", 2)) + 1);
    words.push_back(std::move(word));
  };
  if (elements == 0) return words;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> texts(elements);
    h5::require(read(type, texts.data()) >= 0, what + " cannot be read");
    for (const char* text : texts) add(text == nullptr ? "" : text);
    H5Dvlen_reclaim(type, memory, H5P_DEFAULT, texts.data());
    return words;
  }
  const std::size_t size = H5Tget_size(type);
  std::string texts(elements * size, '\0');
  h5::require(read(type, texts.data()) >= 0, what + " cannot be read");
  for (std::size_t i = 0; i < elements; ++i) add(std::string(texts.substr(i * size, size).c_str()));
  return words;
}

template <typename Read>
std::optional<h5::StoredWords> all_words(hid_t type, hid_t space, const std::string& what, Read&& read) {
  if (H5Tget_class(type) != H5T_STRING) return {};
  return h5::StoredWords{h5::shape_of(space, {}), words_in(type, space, what, read)};
}

}  // namespace

std::optional<h5::StoredWords> h5::words_of(const Dataset& dataset, const std::string& what) {
  const Space space(H5Dget_space(dataset.get()));
  const Type type(H5Dget_type(dataset.get()));
  return all_words(type.get(), space.get(), what, [&](hid_t memory, void* to) {
    return H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
  });
}

std::optional<h5::StoredWords> h5::words_of(const Attribute& attribute, const std::string& what) {
  const Space space(H5Aget_space(attribute.get()));
  const Type type(H5Aget_type(attribute.get()));
  return all_words(type.get(), space.get(), what,
                   [&](hid_t memory, void* to) { return H5Aread(attribute.get(), memory, to); });
}

std::optional<std::vector<Index>> h5::shape_of_words(const Dataset& dataset) {
  if (H5Tget_class(Type(H5Dget_type(dataset.get())).get()) != H5T_STRING) return {};
  return shape_of(Space(H5Dget_space(dataset.get())).get(), {});
}

std::vector<std::string> h5::words_of_rows(const Dataset& dataset, Index first, Index count, const std::string& what) {
  const std::optional<std::vector<Index>> shape = shape_of_words(dataset);
  if (!shape || shape->empty()) throw DataError(what + " holds no words");
  if (first < 0 || count < 0 || first + count > shape->front())
    throw DataError(what + " has no rows " + std::to_string(first) + " to " + std::to_string(first + count - 1));
  if (count == 0) return {};
  ContiguousBox rows{std::vector<Index>(shape->size()), *shape, 0};
  rows.first.front() = first;
  rows.count.front() = count;
  const Space space(H5Dget_space(dataset.get())), memory = select(space.get(), rows);
  const Type type(H5Dget_type(dataset.get()));
  return words_in(type.get(), memory.get(), what, [&](hid_t in_memory, void* to) {
    return H5Dread(dataset.get(), in_memory, memory.get(), space.get(), H5P_DEFAULT, to);
  });
}

std::string h5::text_of(const Attribute& attribute) {
  const auto stored = words_of(attribute, "attribute");
  return stored && stored->words.size() == 1 ? stored->words.front() : "";
}

namespace {

std::string one_text(const std::optional<h5::StoredWords>& stored, const std::string& what) {
  if (!stored || stored->words.size() != 1) throw DataError(what + " is not one string");
  return stored->words.front();
}

}  // namespace

bool Hdf5File::has(const std::string& dataset) const {
  const h5::Lock lock;
  return h5::is_dataset(h5::follow(state_->file.get(), dataset));
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
  const h5::Element element = h5::element_of(type.get());
  DatasetInfo info{h5::shape_of(space.get(), element), element.type, h5::describe(type.get()),
                   H5Tget_class(type.get()) == H5T_STRING};
  require_countable(info.shape, state_->at(name));
  info.file = h5::file_of(dataset.get());
  info.scale = h5::is_dimension_scale(dataset, state_->at(name));
  info.roles = h5::roles_of(dataset);
  if (info.type == ElementType::other) return info;
  Packing packing{.stored = info.type};
  try {
    if (state_->packing == PackingRule::apply) packing = h5::packing_of(dataset, info.type, state_->at(name));
  } catch (const DataError&) {
    info.unclear = true;
  }
  info.type = packing.type();
  info.whole = packing.whole();
  info.stored = packing.stored;
  info.packing = packing.text();
  info.may_miss = packing.declared;
  if (packing.scaled()) info.type_name = "packed " + info.type_name;
  return info;
}

std::vector<std::vector<ObjectIdentity>> Hdf5File::scales_of_axes(const std::string& name) const {
  const h5::Lock lock;
  return h5::scales_of_axes(h5::open_dataset(state_->path, state_->file.get(), name));
}

void Hdf5File::require_written(const std::string& name) const {
  const h5::Lock lock;
  h5::require_written(h5::open_dataset(state_->path, state_->file.get(), name), state_->at(name));
}

void Hdf5File::read_rows(const std::string& name, Index first, Index count, Span out) const {
  const h5::Lock lock;
  const h5::Rows rows(state_->path, state_->file.get(), name, {.packing = state_->packing});
  rows.require(first, count);
  const bool direct = rows.type() == ElementType::float32;
  const bool whole = direct && rows.packing().in_place();
  const Index limit = (whole ? kMostReadBytes : largest_converted_read) / size_of(rows.type());
  const auto parts = h5::blocks(rows.shape(), first, count, limit);
  std::size_t wanted = 0, done = 0;
  Index largest = 0;
  for (const h5::ContiguousBox& block : parts) {
    wanted += static_cast<std::size_t>(block.elements);
    largest = std::max(largest, block.elements);
  }
  MRMF_CHECK(out.size() == wanted, rows.what());
  const auto raw_bytes = static_cast<std::size_t>(direct ? 0 : largest * size_of(rows.type()));
  const auto raw = std::make_unique_for_overwrite<std::byte[]>(raw_bytes);
  for (const h5::ContiguousBox& block : parts) {
    const Span part = out.subspan(done, static_cast<std::size_t>(block.elements));
    rows.read(block, direct ? static_cast<void*>(part.data()) : raw.get());
    if (!direct) to_float32(rows.type(), raw.get(), part);
    done += part.size();
  }
}

namespace h5 {

void add_inputs(hid_t file, const std::string& path, const std::string& name, std::vector<std::string>& files) {
  const Target target = follow(file, name);
  files.insert(files.end(), target.files.begin(), target.files.end());
  if (!is_dataset(target)) return;
  const auto more = files_of(open_dataset(path, file, name), path + ": data set '" + name + "'");
  files.insert(files.end(), more.begin(), more.end());
}

}  // namespace h5

std::vector<std::string> all_inputs(const std::string& target, std::vector<std::string> files) {
  std::error_code unknown;
  if (!std::filesystem::exists(target, unknown)) return files;
  const h5::Lock lock;
  h5::silence();
  const std::vector<std::string> paths = files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_regular_file(path, unknown)) continue;  // told where it is opened
    const h5::File file = h5::open_to_read(path);
    const FileNames names = names_of(path);
    std::vector<std::string> all = names.datasets;
    all.insert(all.end(), names.groups.begin(), names.groups.end());
    for (const FurtherName& further : names.further) all.push_back(further.name);
    for (const std::string& name : all) {
      try {
        h5::add_inputs(file.get(), path, name, files);
      } catch (const DataError&) {  // it leads to what is no file, which its reader is told
      }
    }
  }
  return files;
}

DatasetNumbers read_stored_numbers(const std::string& path, const std::string& name) {
  constexpr hssize_t most = hssize_t{1} << 29;
  const h5::Lock lock;
  h5::silence();
  const InputFile plain(path);  // a FIFO would keep the library waiting
  const h5::File file = h5::open_to_read(path);
  const std::string what = path + ": data set '" + name + "'";
  const h5::Dataset dataset = h5::open_dataset(path, file.get(), name);
  const h5::Type type(H5Dget_type(dataset.get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) throw DataError(what + " holds no numbers");
  const h5::Space space(H5Dget_space(dataset.get()));
  DatasetNumbers numbers;
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space.get()), 0)));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  numbers.shape.assign(sizes.begin(), sizes.end());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  h5::require(count >= 0, what + " cannot be read");
  if (count > most) throw DataError(what + " has " + std::to_string(count) + " numbers, too many to be read at once");
  numbers.values.resize(static_cast<std::size_t>(count));
  if (count > 0)
    h5::require(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.values.data()) >= 0,
                what + " cannot be read");
  return numbers;
}

std::string Hdf5File::read_text(const std::string& name) const {
  const h5::Lock lock;
  const std::string what = state_->at(name);
  return one_text(h5::words_of(h5::open_dataset(state_->path, state_->file.get(), name), what), what);
}

std::vector<std::string> Hdf5File::read_words(const std::string& name, Index first, Index count) const {
  const h5::Lock lock;
  return h5::words_of_rows(h5::open_dataset(state_->path, state_->file.get(), name), first, count, state_->at(name));
}

std::vector<std::string> h5::attribute_names(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names);
  return names;
}

std::string h5::attribute_text(hid_t object, const std::string& name, const std::string& object_text) {
  const std::string what = object_text + ": attribute '" + name + "'";
  const h5::Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  h5::require(bool(attribute), what + " cannot be opened");
  return one_text(words_of(attribute, what), what);
}

std::string Hdf5File::read_attribute(const std::string& name) const {
  const h5::Lock lock;
  if (H5Aexists(state_->file.get(), name.c_str()) <= 0) return "";
  return h5::attribute_text(state_->file.get(), name, state_->path);
}

namespace {

using Attributes = std::vector<std::pair<std::string, DatasetInfo>>;

herr_t add_attribute(hid_t object, const char* name, const H5A_info_t*, void* attributes) {
  const h5::Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (!attribute) return 0;
  const h5::Space space(H5Aget_space(attribute.get()));
  const h5::Type type(H5Aget_type(attribute.get()));
  DatasetInfo info;
  const h5::Element element = h5::element_of(type.get());
  info.shape = h5::shape_of(space.get(), element);
  info.type = info.stored = element.type;
  info.whole = info.type != ElementType::other && !is_float(info.type);
  info.type_name = h5::describe(type.get());
  info.words = H5Tget_class(type.get()) == H5T_STRING;
  static_cast<Attributes*>(attributes)->emplace_back(name, info);
  return 0;
}

}  // namespace

std::vector<std::pair<std::string, DatasetInfo>> attributes_of(const std::string& path, const std::string& object) {
  const h5::Lock lock;
  const DataFile file(path);
  Attributes attributes;
  h5::Object owner(H5Oopen(file.id(), "/", H5P_DEFAULT));
  const h5::Target target = object.empty() ? h5::Target{} : h5::follow(file.id(), object);
  if (!object.empty())
    owner = target.there ? h5::Object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT)) : h5::Object{};
  if (owner) H5Aiterate2(owner.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_attribute, &attributes);
  return attributes;
}

}  // namespace mrmf
