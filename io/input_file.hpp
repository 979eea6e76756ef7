// Files opened for reading with the operating system's own calls. Every file that a user names is opened here first: a
// FIFO or a device would keep its reader waiting for ever.
#pragma once

#include <limits>
#include <string>

#include "kernels/tensor.hpp"

namespace mrmf {

/// A regular file, open for reading.
class Descriptor {
 public:
  /// Never waits. DataError that says apart: no such file, a folder, a FIFO, socket or device, no permission, too many
  /// open files.
  explicit Descriptor(const std::string& path);
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int number() const { return number_; }
  Index bytes() const { return bytes_; }  ///< when it was opened

 private:
  int number_;
  Index bytes_ = 0;
};

/// What a file holds. DataError as above, and where it is larger than `most` bytes or cannot be read.
std::string read_file(const std::string& path, Index most = std::numeric_limits<Index>::max());

}  // namespace mrmf
