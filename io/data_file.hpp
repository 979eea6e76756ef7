// An open HDF5 file that the readers of its data sets share. Private to io/.
#pragma once

#include <string>

#include "io/hdf5_library.hpp"

namespace mrmf {

class DataFile {
 public:
  /// DataError that says what is wrong, as Hdf5File::open's.
  explicit DataFile(const std::string& path);
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  /// Callers hold an h5::Lock while they use it.
  hid_t id() const { return file_.get(); }

 private:
  std::string path_;
  h5::File file_;
};

}  // namespace mrmf
