// Files for the tests, written with plain HDF5 so that they do not depend on what is under test.
#pragma once

#include <hdf5.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace mrmf::test {

/// A folder that vanishes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mrmf-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder: " + pattern);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// IEEE binary16, little or big endian; HDF5 1.10 has none of its own.
inline hid_t half_type(H5T_order_t order) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  H5Tset_order(type, order);
  return type;
}

/// Adds a data set to a file (made when it is not there).
struct NewDataset {
  std::string path, name;
  std::vector<std::int64_t> shape;
  hid_t file_type, memory_type;
  bool compressed = false;  ///< in chunks of three rows, deflated

  void write(const void* values) const {
    const hid_t file = std::filesystem::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                                     : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    if (compressed) {
      std::vector<hsize_t> chunk = sizes;
      chunk[0] = 3;
      H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(creation, 4);
    }
    const hid_t data = H5Dcreate2(file, name.c_str(), file_type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    const herr_t written = H5Dwrite(data, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(data);
    H5Pclose(creation);
    H5Sclose(space);
    H5Fclose(file);
    if (data < 0 || written < 0) throw std::runtime_error("test file could not be written: " + path);
  }
};

inline void write_floats(const std::string& path, const std::string& name, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
  NewDataset{path, name, shape, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT}.write(values.data());
}

/// 0, 1, 2, ... from `first` on: exact in float32 below 2^24.
inline std::vector<float> ramp(std::int64_t count, float first = 0) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// The message of the error that `action` throws; "" when it throws none of that class.
template <typename Error, typename Action>
std::string message(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace mrmf::test
