// Regular files, opened for reading with system calls. Every file that a user names is opened here first: a FIFO or a
// device could keep its reader waiting forever. And what tells a file from others, and from what it was before.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

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

/// Whether a file or folder of this name is there. DataError where the system does not let this user look.
bool is_there(const std::string& path);

/// Whether a file begins as HDF5 files do. DataError as InputFile's.
bool is_hdf5(const std::string& path);

/// The contents of a file. DataError as above, and when it has more than `most` bytes or cannot be read.
std::string read_file(const std::string& path, Index most = std::numeric_limits<Index>::max());

// Whether two names are of the same file, and whether a file is still what it was.

/// What tells a file from all others, under whatever name: its device and its number there.
using FileIdentity = std::pair<dev_t, ino_t>;

/// Follows links. None of a file that cannot be looked at: it may be absent.
std::optional<FileIdentity> file_identity(const std::string& path);

/// What changes with a file's contents.
struct FileState {
  FileIdentity file{};
  std::int64_t bytes = 0, modified = 0, changed = 0;  ///< the times in nanoseconds
  bool operator==(const FileState&) const = default;
};

/// The state of an open file, or of one by its name; none where the system does not say.
std::optional<FileState> file_state(int descriptor);
std::optional<FileState> file_state(const std::string& path);

}  // namespace mrmf
