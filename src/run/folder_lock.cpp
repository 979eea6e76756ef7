#include "src/run/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

enum class Held { here, elsewhere, nowhere };

Held try_lock(int descriptor) {
  for (;;) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Held::here;
    if (errno != EINTR) return errno == EWOULDBLOCK ? Held::elsewhere : Held::nowhere;
  }
}

// Another run's error may have removed the folder while this one waited for it.
bool is_still(int descriptor, const std::string& folder) {
  struct stat held {
  }, there{};
  return ::fstat(descriptor, &held) == 0 && ::stat(folder.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  using Clock = std::chrono::steady_clock;
  // The ranks of an mpirun that was killed go a moment after it; who starts again at once waits for them.
  const Clock::time_point end = Clock::now() + std::chrono::seconds(3);
  for (;;) {
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) return;
    const Held held = try_lock(descriptor_);
    if (held == Held::nowhere || (held == Held::here && is_still(descriptor_, folder))) return;
    ::close(descriptor_);
    if (Clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw ConfigError("run.folder: " + folder +
                    " is in use by another mrmf train; wait for its end or stop it, or set another folder, --set "
                    "run.folder=...");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace mrmf
