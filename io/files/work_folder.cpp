#include "io/files/work_folder.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace fs = std::filesystem;

WorkFolder::WorkFolder(std::string path) : path_(std::move(path)) {
  remove_folder(path_);
  make_folders(path_);
}

WorkFolder::~WorkFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

void remove_folder(const std::string& path) {
  constexpr int tries = 10;  // a process that its parent's end has not reached yet may still write there
  std::error_code error;
  for (int i = 0; i < tries; ++i) {
    fs::remove_all(path, error);
    if (!error) return;
  }
  throw DataError(path + ": cannot be removed: " + error.message() + "; is a process still at work there?");
}

bool move_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::exists(to, error)) return false;
  fs::rename(from, to, error);
  return !error;
}

FileDescriptor open_log(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) throw DataError(path + ": cannot be written: " + std::strerror(errno));
  return file;
}

}  // namespace mrmf
