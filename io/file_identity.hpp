// Whether two names are of the same file.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

namespace mrmf {

/// What tells a file from all others, under whatever name: its device and its number there.
using FileIdentity = std::pair<dev_t, ino_t>;

/// Follows links. None of a file that cannot be looked at: it may be absent.
std::optional<FileIdentity> file_identity(const std::string& path);

}  // namespace mrmf
