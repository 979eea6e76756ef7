#include "io/hdf5/output.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/hdf5/driver_and_copy.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as this machine holds them");

/// Where a data set lies in the file.
struct DatasetSpan {
  Index offset = 0;  // where its first byte is
  ElementType type = ElementType::float32;
  std::vector<Index> shape;
  Index text = 0;  // bytes of each text; 0: these are numbers
  Index element() const { return text > 0 ? text : size_of(type); }
};

Index product(std::span<const Index> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), Index{1}, std::multiplies<>());
}

std::string at(const std::string& path, const std::string& name) { return path + ": data set '" + name + "'"; }

h5::Type enumeration_of(ElementType type, const std::map<Index, std::string>& values) {
  const h5::Type base(h5::stored_type(type)), native(H5Tcopy(H5T_NATIVE_LLONG));
  h5::Type made(H5Tenum_create(base.get()));
  for (const auto& [value, name] : values) {
    std::array<long long, 1> number{value};
    h5::require(H5Tconvert(native.get(), base.get(), 1, number.data(), nullptr, H5P_DEFAULT) >= 0 &&
                    H5Tenum_insert(made.get(), name.c_str(), number.data()) >= 0,
                "an enumeration with '" + name + "' cannot be made");
  }
  return made;
}

/// Functions that make objects in an open file; `path` is for messages.
h5::Dataset make_dataset(hid_t file, const std::string& path, const std::string& name, const DatasetSpan& span,
                         const std::map<Index, std::string>& values) {
  const h5::Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.get(), false);
  const std::vector<hsize_t> sizes(span.shape.begin(), span.shape.end());
  const h5::Space space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
  h5::Type stored(span.text > 0 ? H5Tcopy(H5T_C_S1) : H5I_INVALID_HID);
  if (span.text > 0) {
    H5Tset_size(stored.get(), static_cast<std::size_t>(span.text));
    H5Tset_strpad(stored.get(), H5T_STR_NULLPAD);
    H5Tset_cset(stored.get(), H5T_CSET_UTF8);
  } else {
    stored = values.empty() ? h5::stored_type(span.type) : enumeration_of(span.type, values);
  }
  h5::Dataset dataset(
      H5Dcreate2(file, name.c_str(), stored.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT));
  h5::require(bool(dataset), at(path, name) + " cannot be created");
  return dataset;
}

void add_text(hid_t file, const std::string& path, const std::string& name, const std::string& text) {
  const h5::Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_obj_track_times(creation.get(), false);
  const h5::Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const hsize_t one = 1;
  const h5::Space space(H5Screate_simple(1, &one, nullptr));
  h5::Dataset dataset(
      H5Dcreate2(file, name.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT));
  const char* pointer = text.c_str();
  h5::require(
      dataset && H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer) >= 0 && dataset.close(),
      at(path, name) + " cannot be written");
}

void add_attribute(hid_t file, const std::string& path, const std::string& name, const std::string& text) {
  const h5::Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), text.size() + 1);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const h5::Space space(H5Screate(H5S_SCALAR));
  h5::Attribute attribute(H5Acreate2(file, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  h5::require(attribute && H5Awrite(attribute.get(), type.get(), text.c_str()) >= 0 && attribute.close(),
              path + ": attribute '" + name + "' of " + std::to_string(text.size()) +
                  " bytes cannot be written (64 KiB is the most)");
}

}  // namespace

struct Hdf5Output::State {
  Comm comm;
  OutputFile output;
  h5::DriverFile driver;
  h5::File file;  // open on the root
  std::map<std::string, DatasetSpan> spans;
  h5::LeftOut left_out;           // on the root
  Index wanted = 0, written = 0;  // bytes of all data sets; bytes of rows that this rank wrote

  End end;

  State(const std::string& target, Replace replace, const Comm& ranks, End at_end)
      : comm(ranks.duplicate()), output(target, replace, comm), driver(output), end(at_end) {}

  const std::string& path() const { return output.target(); }

  /// Collective. The root acts on its file; its error is thrown on all ranks.
  template <typename Action>
  void on_root(const Action& action) {
    const h5::Lock lock;
    collective_try(comm, [&] {
      if (!comm.root()) return;
      action();
      driver.check();
    });
  }
};

Hdf5Output::Hdf5Output(const std::string& target, Replace replace, const Comm& comm, End end)
    : state_(std::make_unique<State>(target, replace, comm, end)) {
  state_->on_root([&] {
    h5::silence();
    state_->file = state_->driver.create();
  });
}

Hdf5Output::~Hdf5Output() {
  const h5::Lock lock;
  state_->file.close();  // the partial file is removed with the output
}

void Hdf5Output::reserve(std::uint64_t bytes) { state_->output.reserve(bytes); }

void Hdf5Output::create_dataset(const std::string& name, const std::vector<Index>& shape, ElementType type) {
  create(name, shape, type, 0, {});
}

void Hdf5Output::create_enumeration(const std::string& name, const std::vector<Index>& shape, ElementType type,
                                    const std::map<Index, std::string>& values) {
  create(name, shape, type, 0, values);
}

void Hdf5Output::create_texts(const std::string& name, const std::vector<Index>& shape, Index bytes) {
  create(name, shape, ElementType::uint8, std::max<Index>(1, bytes), {});
}

void Hdf5Output::create(const std::string& name, const std::vector<Index>& shape, ElementType type, Index text,
                        const std::map<Index, std::string>& values) {
  DatasetSpan span{0, type, shape, text};
  const Index bytes = product(shape) * span.element();
  state_->on_root([&] {
    const h5::Dataset dataset = make_dataset(state_->file.get(), state_->path(), name, span, values);
    if (bytes == 0) return;
    const haddr_t offset = H5Dget_offset(dataset.get());
    h5::require(offset != HADDR_UNDEF, at(state_->path(), name) + " has no place in the file");
    span.offset = static_cast<Index>(offset);
    state_->output.reserve(offset + static_cast<std::uint64_t>(bytes));
  });
  state_->comm.broadcast(std::span(&span.offset, 1), 0);
  state_->spans[name] = std::move(span);
  state_->wanted += bytes;
}

void Hdf5Output::write_bytes(const std::string& name, std::initializer_list<Index> first,
                             std::span<const std::byte> bytes, std::size_t element) {
  const auto found = state_->spans.find(name);
  const std::string where = at(state_->path(), name);
  MRMF_CHECK(found != state_->spans.end(), where + " was not created");
  const DatasetSpan& span = found->second;
  const Index size = span.element();
  MRMF_CHECK(element == 0 || size == static_cast<Index>(element), where);
  // The values are whole pieces along the last axis that `first` names, at one index of each axis before it.
  const std::size_t axis = first.size() - 1;
  const Index piece = product(std::span(span.shape).subspan(axis + 1)) * size;  // bytes
  const Index count = piece == 0 ? 0 : std::ssize(bytes) / piece;
  MRMF_CHECK(count * piece == std::ssize(bytes), where + ": not whole rows");
  Index index = 0;
  for (std::size_t i = 0; i <= axis; ++i) {
    const Index begin = first.begin()[i];
    MRMF_CHECK(begin >= 0 && begin + (i == axis ? count : 1) <= span.shape[i], where + ": rows outside of it");
    index = index * span.shape[i] + begin;
  }
  state_->output.write(static_cast<std::uint64_t>(span.offset + index * piece), bytes);
  state_->written += std::ssize(bytes);
}

void Hdf5Output::write_rows(const std::string& name, Index first, std::span<const std::byte> values) {
  write_bytes(name, {first}, values, 0);
}

void Hdf5Output::write_rows(const std::string& name, Index first, ConstSpan values) {
  write_bytes(name, {first}, std::as_bytes(values), sizeof(float));
}

void Hdf5Output::write_rows(const std::string& name, Index first, std::span<const std::uint16_t> values) {
  write_bytes(name, {first}, std::as_bytes(values), sizeof(std::uint16_t));
}

void Hdf5Output::write_rows(const std::string& name, Index first, std::span<const std::uint32_t> values) {
  write_bytes(name, {first}, std::as_bytes(values), sizeof(std::uint32_t));
}

void Hdf5Output::write_values(const std::string& name, Index first, ConstSpan values) {
  const auto found = state_->spans.find(name);
  const std::string where = at(state_->path(), name);
  MRMF_CHECK(found != state_->spans.end() && found->second.type == ElementType::float32, where + " is not of float32");
  MRMF_CHECK(first >= 0 && first + std::ssize(values) <= product(found->second.shape),
             where + ": values outside of it");
  const auto bytes = std::as_bytes(values);
  state_->output.write(static_cast<std::uint64_t>(found->second.offset + first * Index{sizeof(float)}), bytes);
  state_->written += std::ssize(bytes);
}

void Hdf5Output::write_planes(const std::string& name, Index row, Index first, std::span<const std::uint16_t> values) {
  write_bytes(name, {row, first}, std::as_bytes(values), sizeof(std::uint16_t));
}

void Hdf5Output::write_text(const std::string& name, const std::string& text) {
  state_->on_root([&] { add_text(state_->file.get(), state_->path(), name, text); });
}

void Hdf5Output::write_attribute(const std::string& name, const std::string& text) {
  state_->on_root([&] { add_attribute(state_->file.get(), state_->path(), name, text); });
}

void Hdf5Output::copy_datasets(const std::string& source, const std::vector<std::string>& names,
                               const std::vector<std::string>& except) {
  state_->on_root([&] {
    const h5::File from = h5::open_to_read(source);
    for (const std::string& name : names)
      h5::copy_dataset({from.get(), state_->file.get(), source, state_->path(), state_->left_out}, name, except);
  });
}

void Hdf5Output::copy_attributes(const std::string& source, const std::vector<std::string>& objects,
                                 const std::vector<std::string>& except) {
  state_->on_root([&] {
    const h5::File from = h5::open_to_read(source);
    for (const std::string& object : objects)
      h5::copy_attributes({from.get(), state_->file.get(), source, state_->path(), state_->left_out}, object, except);
  });
}

void Hdf5Output::mark_missing(const std::string& name) {
  state_->on_root([&] {
    const h5::Dataset dataset(H5Dopen2(state_->file.get(), name.c_str(), H5P_DEFAULT));
    const h5::Space space(H5Screate(H5S_SCALAR));
    h5::Attribute attribute(
        H5Acreate2(dataset.get(), "_FillValue", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const float missing = std::numeric_limits<float>::quiet_NaN();
    h5::require(attribute && H5Awrite(attribute.get(), H5T_NATIVE_FLOAT, &missing) >= 0 && attribute.close(),
                state_->path() + ": attribute '_FillValue' of '" + name + "' cannot be written");
  });
}

void Hdf5Output::copy_names(const std::string& source, const FileNames& names) {
  state_->on_root([&] {
    const h5::File from = h5::open_to_read(source);
    h5::copy_names({from.get(), state_->file.get(), source, state_->path(), state_->left_out}, names);
  });
}

std::vector<std::string> Hdf5Output::left_out() const { return h5::texts_of(state_->left_out); }

void Hdf5Output::close() {
  state_->on_root([&] { h5::require(state_->file.close(), state_->path() + ": cannot be closed"); });
  if (state_->end == End::checksum)
    collective_try(state_->comm, [&] {
      if (state_->comm.root()) append_checksum(state_->output, state_->driver.end());
    });
  const double written = state_->comm.sum(static_cast<double>(state_->written));
  MRMF_CHECK(written == static_cast<double>(state_->wanted), state_->path() + ": rows were left out or written twice");
}

std::unique_ptr<FinishedFile> Hdf5Output::finish() {
  close();
  return state_->output.finish();
}

void Hdf5Output::commit() {
  close();
  state_->output.commit();
}

}  // namespace mrmf
