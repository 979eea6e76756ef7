#include "io/file_identity.hpp"

#include <sys/stat.h>

namespace mrmf {

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return FileIdentity{found.st_dev, found.st_ino};
}

namespace {

FileState state_of(const struct stat& found) {
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_nsec};
  };
  return {{found.st_dev, found.st_ino}, found.st_size, nanoseconds(found.st_mtim), nanoseconds(found.st_ctim)};
}

}  // namespace

std::optional<FileState> file_state(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return {};
  return state_of(found);
}

std::optional<FileState> file_state(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return state_of(found);
}

}  // namespace mrmf
