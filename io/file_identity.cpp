#include "io/file_identity.hpp"

#include <sys/stat.h>

namespace mrmf {

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return FileIdentity{found.st_dev, found.st_ino};
}

}  // namespace mrmf
