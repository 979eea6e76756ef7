// One run at a time in a folder.
#pragma once

#include <string>

namespace mrmf {

/// Holds a folder for as long as it lives. The system lets go of it when the process ends, however it ends, and nothing
/// is left in the folder. Where a file system has no locks, or only some nodes see them, nothing is held.
class FolderLock {
 public:
  /// One that is not there or cannot be looked into is not held. ConfigError: another process holds it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace mrmf
