// Writing, through MPI-IO where there are several ranks. The bytes of a file are the same for any number of ranks:
// contiguous data sets, space taken at creation, no fill values and no times.
#include <algorithm>
#include <functional>
#include <numeric>

#include "io/agreement.hpp"
#include "io/hdf5_blocks.hpp"
#include "io/hdf5_lock.hpp"
#include "io/hdf5_state.hpp"

namespace mrmf {
namespace {

/// An independent write of 2 GiB or more fails inside MPI-IO.
template <typename Element>
constexpr Index largest_write = (Index{1} << 30) / static_cast<Index>(sizeof(Element));

hid_t memory_type(float) { return H5T_NATIVE_FLOAT; }
hid_t memory_type(std::uint16_t) { return H5T_NATIVE_UINT16; }

/// That many elements from `first` on: whole pieces of the last axis that it names, one of each axis before.
h5::Block box_at(const std::vector<Index>& shape, std::initializer_list<Index> first, std::size_t elements,
                 const std::string& where) {
  h5::Block box{{first}, shape, static_cast<Index>(elements)};
  const std::size_t axis = first.size() - 1;
  box.first.resize(shape.size());
  const Index piece = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(), Index{1},
                                      std::multiplies<>());
  std::fill_n(box.count.begin(), axis, Index{1});
  box.count[axis] = piece == 0 ? 0 : box.elements / piece;
  MRMF_CHECK(box.count[axis] * piece == box.elements, where + ": not whole rows");
  for (std::size_t i = 0; i <= axis; ++i)
    MRMF_CHECK(box.first[i] >= 0 && box.first[i] + box.count[i] <= shape[i], where + ": rows outside of it");
  return box;
}

}  // namespace

void Hdf5File::create_dataset(const std::string& name, const std::vector<Index>& shape, ElementType type) {
  MRMF_CHECK(type == ElementType::float32 || type == ElementType::uint16,
             "type " + to_string(type) + " is not written");
  const h5::Lock lock;
  together(state_->writers(), [&] {
    const h5::Properties links(H5Pcreate(H5P_LINK_CREATE)), creation(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(creation.get(), false);
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const h5::Space space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    const hid_t stored = type == ElementType::uint16 ? H5T_STD_U16LE : H5T_IEEE_F32LE;
    const h5::Dataset dataset(
        H5Dcreate2(state_->file.get(), name.c_str(), stored, space.get(), links.get(), creation.get(), H5P_DEFAULT));
    h5::require(bool(dataset), state_->at(name) + " cannot be created");
  });
}

template <typename Element>
void Hdf5File::write_elements(const std::string& name, std::initializer_list<Index> first,
                              std::span<const Element> values) {
  const h5::Lock lock;
  state_->writers();
  const h5::Dataset dataset(H5Dopen2(state_->file.get(), name.c_str(), H5P_DEFAULT));
  h5::require(bool(dataset), state_->at(name) + " cannot be opened");
  const h5::Space space(H5Dget_space(dataset.get()));
  std::vector<hsize_t> sizes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  const h5::Block box = box_at({sizes.begin(), sizes.end()}, first, values.size(), state_->at(name));

  const Element* from = values.data();
  for (const h5::Block& block : h5::blocks(box, largest_write<Element>)) {
    const h5::Space source = h5::select(space.get(), block);
    h5::require(H5Dwrite(dataset.get(), memory_type(Element{}), source.get(), space.get(), H5P_DEFAULT, from) >= 0,
                state_->at(name) + " cannot be written at row " + std::to_string(block.first[0]) +
                    " (is the file system full?)");
    from += block.elements;
  }
}

void Hdf5File::write_rows(const std::string& name, Index first, ConstSpan values) {
  write_elements(name, {first}, values);
}

void Hdf5File::write_rows(const std::string& name, Index first, std::span<const std::uint16_t> values) {
  write_elements(name, {first}, values);
}

void Hdf5File::write_planes(const std::string& name, Index row, Index first, std::span<const std::uint16_t> values) {
  write_elements(name, {row, first}, values);
}

void Hdf5File::write_text(const std::string& name, const std::string& text) {
  state_->writers();
  state_->texts.emplace_back(name, text);
}

void Hdf5File::write_attribute(const std::string& name, const std::string& text) {
  const h5::Lock lock;
  together(state_->writers(), [&] {
    const h5::Type type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.get(), text.size() + 1);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    const h5::Space space(H5Screate(H5S_SCALAR));
    const h5::Attribute attribute(
        H5Acreate2(state_->file.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    h5::require(attribute && H5Awrite(attribute.get(), type.get(), text.c_str()) >= 0,
                state_->path + ": attribute '" + name + "' of " + std::to_string(text.size()) +
                    " bytes cannot be written (64 KiB is the most)");
  });
}

}  // namespace mrmf
