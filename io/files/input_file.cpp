#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "io/files/file_names.hpp"
#include "io/files/limits.hpp"

namespace mrmf {
namespace {

[[noreturn]] void cannot_open(const std::string& path, int reason) {
  if (reason == ENOENT) {
    if (const std::string advice = advice_on_name(path); !advice.empty())
      throw DataError(path + ": no such file: " + advice);
    const bool relative = std::filesystem::path(path).is_relative();
    std::error_code gone;
    throw DataError(path + ": no such file" +
                    (relative ? " (looked from " + std::filesystem::current_path(gone).string() + ")" : "") +
                    "; check the path");
  }
  if (reason == EACCES) throw DataError(path + ": permission denied; make it readable for this user");
  if (reason == ENXIO) throw DataError(path + ": is a socket or a device, not a file");
  const bool descriptors = reason == EMFILE || reason == ENFILE;
  throw DataError(path + ": cannot be opened: " + std::strerror(reason) +
                  (descriptors ? "; raise `ulimit -n`, or use more ranks" : ""));
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO (named pipe)";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

// Without O_NONBLOCK, opening a FIFO waits for its writer.
InputFile::InputFile(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (!file_) cannot_open(path, errno);
  struct stat facts {};
  const bool known = ::fstat(number(), &facts) == 0;
  bytes_ = facts.st_size;
  if (known && S_ISREG(facts.st_mode)) return;
  throw DataError(path + ": is " + (known ? kind_of(facts.st_mode) : "unreadable") + ", not a file");
}

InputFile::InputFile(FileDescriptor file) : file_(std::move(file)) {
  struct stat facts {};
  if (::fstat(number(), &facts) == 0) bytes_ = facts.st_size;
}

bool is_there(const std::string& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) throw DataError(path + ": cannot be looked for (" + error.message() + "); ask its owner for access");
  return there;
}

bool is_hdf5(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  const InputFile file(path);
  std::array<char, signature.size()> start{};
  const ssize_t got = ::pread(file.number(), start.data(), start.size(), 0);
  return got == std::ssize(start) && signature == std::string_view(start.data(), start.size());
}

std::string read_file(const std::string& path, Index most) {
  const InputFile file(path);
  const auto too_large = [&](Index bytes) {
    if (bytes > most)
      throw DataError(path + ": is larger than the " + std::to_string(most) + " bytes that such a file may have");
  };
  too_large(file.bytes());
  // Files in /proc report a size of 0, and a file may grow while it is read.
  constexpr Index room = 4096;
  std::string text;
  Index done = 0;
  for (Index wanted = file.bytes() + 1;; wanted = std::max(file.bytes() + 1, done + room)) {
    text.resize(static_cast<std::size_t>(wanted));
    const auto left = static_cast<std::size_t>(std::min(wanted - done, kMostReadBytes));
    const ssize_t got = ::read(file.number(), text.data() + done, left);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(path + ": cannot be read: " + std::strerror(errno) + "; copy it or make it again");
    if (got == 0) break;
    done += got;
    too_large(done);
  }
  text.resize(static_cast<std::size_t>(done));
  return text;
}

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
