// Input files: regular files opened for reading, without ever waiting for a FIFO or device, what tells a file from
// others, and limits on the size and nesting of what files hold.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/file_descriptor.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Limits on the contents of files, checked before anything else: sizes, which a file may give as anything below 2^64,
// and nesting depth. Nesting is found without recursion. Parsers do recurse, as does the code that walks over their
// results, so a text that is nested deeply enough would overflow the stack.

/// Elements of the largest data set, or of all files together. The bytes of several such still fit an Index.
constexpr Index kMostElements = Index{1} << 52;
/// Bytes of one call that reads: fewer than the system's calls may return.
constexpr Index kMostReadBytes = Index{1} << 30;
/// Elements of one row.
constexpr Index kMostRowElements = Index{1} << 34;

/// DataError with the shape when a data set exceeds these numbers, or has a size below 0 (2^63 or more in the file).
void require_countable(const std::vector<Index>& shape, const std::string& what);

/// a * b for nonnegative numbers; the largest Index when that overflows.
Index saturated_product(Index a, Index b);

/// "(96, 64, 3)"
std::string shape_text(const std::vector<Index>& shape);

/// Bytes of a configuration, which may name 100,000 files or more.
constexpr Index kMostTomlBytes = Index{1} << 26;
/// Levels of lists, of tables, and names of one dotted key.
constexpr int kMostNesting = 32;

/// The deepest nesting of brackets outside strings and comments, or the most names in a dotted key if that is more. At
/// least what a TOML parser would find before it meets an error.
int toml_nesting(std::string_view text);
/// The deepest nesting of brackets outside strings of a JSON text.
int json_nesting(std::string_view text);

/// ConfigError naming `origin` when a configuration's text is too large, nested too deeply, or has a non-ASCII
/// character where none may be (the parser's behaviour is then undefined).
void require_shallow_toml(std::string_view text, const std::string& origin);
/// DataError likewise, for JSON from one of our own files.
void require_shallow_json(std::string_view text, const std::string& origin);

// Regular files, opened for reading with system calls. Every file that a user names is opened here first: a FIFO or a
// device could keep its reader waiting forever. And what tells a file from others, and from what it was before.

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
