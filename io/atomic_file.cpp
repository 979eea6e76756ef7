#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "io/agreement.hpp"

namespace mrmf {
namespace {

// 0, or errno.
int write_all(const std::string& path, std::string_view bytes) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int reason = 0;
  while (!bytes.empty() && reason == 0) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR) reason = errno;
  }
  if (::close(descriptor) != 0 && reason == 0) reason = errno;  // a network's file system may say only now
  return reason;
}

}  // namespace

void sync_to_disk(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool opened = descriptor >= 0;
  const bool synced = opened && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (opened) ::close(descriptor);
  // Some file systems cannot sync a folder, and say so with EINVAL.
  if (!synced && reason != EINVAL)
    throw DataError(path + ": cannot be written to disk: " + std::strerror(reason) + "; check space and quota");
}

void atomic_write(const std::string& target, std::string_view bytes) try {
  const std::string partial = target + ".partial";
  const int reason = write_all(partial, bytes);
  if (reason != 0)
    throw DataError(partial + ": cannot be written: " + std::strerror(reason) + "; check its folder, space and quota");
  atomic_replace(partial, target);
} catch (const DataError&) {
  ::unlink((target + ".partial").c_str());
  throw;
}

void atomic_replace(const std::string& written, const std::string& target) {
  sync_to_disk(written);
  if (std::rename(written.c_str(), target.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    throw DataError(target + ": cannot be put in place: " + reason + "; check it and its folder");
  }
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  sync_to_disk(folder.empty() ? "." : folder.string());
}

PartialFile::PartialFile(std::string target, const Comm& comm)
    : target_(std::move(target)), path_(target_ + ".partial"), comm_(comm.duplicate()) {}

PartialFile::~PartialFile() {
  if (!committed_ && comm_.root()) ::unlink(path_.c_str());
}

void PartialFile::commit() {
  together(comm_, [&] {
    if (comm_.root()) atomic_replace(path_, target_);
  });
  committed_ = true;
}

}  // namespace mrmf
