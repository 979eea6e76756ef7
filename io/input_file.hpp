// Regular files, opened for reading with system calls. Every file that a user names is opened here first: a FIFO or a
// device could keep its reader waiting forever.
#pragma once

#include <limits>
#include <string>

#include "kernels/file_descriptor.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// A regular file, open for reading.
class InputFile {
 public:
  /// Never waits. DataError distinguishes: no such file, a folder, a FIFO, socket or device, no permission, too many
  /// open files.
  explicit InputFile(const std::string& path);
  /// Takes over a regular file that is open.
  explicit InputFile(FileDescriptor file);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int number() const { return file_.number(); }
  Index bytes() const { return bytes_; }  ///< at the time of opening

 private:
  FileDescriptor file_;
  Index bytes_ = 0;
};

/// Whether a file begins as HDF5 files do. DataError as InputFile's.
bool is_hdf5(const std::string& path);

/// The contents of a file. DataError as above, and when it has more than `most` bytes or cannot be read.
std::string read_file(const std::string& path, Index most = std::numeric_limits<Index>::max());

}  // namespace mrmf
