// Whether two names are of the same file, and whether a file is still what it was.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mrmf {

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

/// Of an open file, or of one by its name; none where the system does not say.
std::optional<FileState> file_state(int descriptor);
std::optional<FileState> file_state(const std::string& path);

}  // namespace mrmf
