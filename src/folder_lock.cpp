#include "src/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

// The ranks of an mpirun that was killed go a moment after it; who starts again at once waits for them.
bool held_by_another(int descriptor) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(3);
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return false;  // no locks here
    if (Clock::now() > end) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0 || !held_by_another(descriptor_)) return;
  ::close(descriptor_);
  throw ConfigError("run.folder: " + folder +
                    " is in use by another mrmf train; wait for its end or stop it, or set another folder, --set "
                    "run.folder=...");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace mrmf
