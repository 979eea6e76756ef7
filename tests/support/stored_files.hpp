// The same values stored in every way that a file may hold them, and damage to them.
#pragma once

#include <cmath>

#include "tests/support/data_files.hpp"

namespace mrmf::test {

struct StoredAs {
  enum class Type { float16, float32, float64, int16, uint16 };
  Type type = Type::float32;
  bool big_endian = false;
  std::int64_t chunk_rows = 0;  ///< 0: contiguous
  bool split_rows = false;      ///< chunks that hold half of a row along the second axis
  bool deflate = false, shuffle = false, fletcher32 = false;

  std::string name() const {
    const char* types[] = {"float16", "float32", "float64", "int16", "uint16"};
    return std::string(types[static_cast<int>(type)]) + (big_endian ? " big-endian" : "") +
           (chunk_rows > 0 ? " chunks of " + std::to_string(chunk_rows) : "") + (split_rows ? " split" : "") +
           (shuffle ? " shuffle" : "") + (deflate ? " deflate" : "") + (fletcher32 ? " fletcher32" : "");
  }
  hid_t file_type() const {
    switch (type) {
      case Type::float16: return half_type(big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
      case Type::float32: return big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE;
      case Type::float64: return big_endian ? H5T_IEEE_F64BE : H5T_IEEE_F64LE;
      case Type::int16: return big_endian ? H5T_STD_I16BE : H5T_STD_I16LE;
      case Type::uint16: return big_endian ? H5T_STD_U16BE : H5T_STD_U16LE;
    }
    return H5I_INVALID_HID;
  }
};

inline std::vector<StoredAs> all_storages() {
  std::vector<StoredAs> all;
  for (const auto type : {StoredAs::Type::float16, StoredAs::Type::float32, StoredAs::Type::float64,
                          StoredAs::Type::int16, StoredAs::Type::uint16}) {
    for (const bool big : {false, true}) all.push_back({.type = type, .big_endian = big});
    all.push_back({.type = type, .chunk_rows = 3});
    all.push_back({.type = type, .chunk_rows = 1, .deflate = true, .shuffle = true});
    all.push_back({.type = type, .big_endian = true, .chunk_rows = 2, .split_rows = true, .deflate = true});
    all.push_back({.type = type, .chunk_rows = 1, .fletcher32 = true});
  }
  return all;
}

/// Makes `path` with one data set of these values, converted by the library.
inline void write_stored(const std::string& path, const std::string& name, const std::vector<std::int64_t>& shape,
                         const StoredAs& as, const std::vector<float>& values) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (as.chunk_rows > 0) {
    std::vector<hsize_t> chunk = sizes;
    chunk[0] = static_cast<hsize_t>(as.chunk_rows);
    if (as.split_rows) chunk[1] = (chunk[1] + 1) / 2;
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  }
  if (as.shuffle) H5Pset_shuffle(creation);
  if (as.deflate) H5Pset_deflate(creation, 4);
  if (as.fletcher32) H5Pset_fletcher32(creation);
  const hid_t data = H5Dcreate2(file, name.c_str(), as.file_type(), space, H5P_DEFAULT, creation, H5P_DEFAULT);
  const herr_t written = H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(data);
  H5Pclose(creation);
  H5Sclose(space);
  H5Fclose(file);
  if (data < 0 || written < 0) throw std::runtime_error("test file could not be written: " + path);
}

/// The first element of a row of a float data set.
inline void overwrite_row(const std::string& path, const std::string& name, std::int64_t row, float value) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(data);
  std::vector<hsize_t> first(8, 0), count(8, 1);
  first[0] = static_cast<hsize_t>(row);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
  const hid_t memory = H5Screate(H5S_SCALAR);
  const herr_t written = H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, &value);
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(file);
  if (written < 0) throw std::runtime_error("test file could not be changed: " + path);
}

/// Flips bytes in the middle of the chunk that holds this row (one row a chunk).
inline void damage_chunk(const std::string& path, const std::string& name, std::int64_t row) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  std::vector<hsize_t> first(8, 0);
  first[0] = static_cast<hsize_t>(row);
  unsigned mask = 0;
  haddr_t address = 0;
  hsize_t size = 0;
  const herr_t found = H5Dget_chunk_info_by_coord(data, first.data(), &mask, &address, &size);
  H5Dclose(data);
  H5Fclose(file);
  if (found < 0) throw std::runtime_error("no such chunk: " + path);
  std::string bytes = read_bytes(path);
  for (std::size_t i = 0; i < 8; ++i) bytes[address + size / 2 + i] ^= '\x5a';
  write_bytes(path, bytes);
}

}  // namespace mrmf::test
