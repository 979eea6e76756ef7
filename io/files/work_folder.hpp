// Files that are not this program's own: folders in which other programs work, and what they print.
#pragma once

#include <string>

#include "kernels/file_descriptor.hpp"

namespace mrmf {

/// A folder of which nothing is kept: the destructor removes it with all that is in it. On any thread.
class WorkFolder {
 public:
  /// DataError when it cannot be made, or what a killed process left there cannot be removed.
  explicit WorkFolder(std::string path);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Removes a folder with all that is in it, if it is there. DataError when it cannot.
void remove_folder(const std::string& path);

/// Gives a folder another name on the same file system. False where that name is taken, or it cannot.
bool move_folder(const std::string& from, const std::string& to);

/// A file for what a child process prints, emptied first. DataError when it cannot be made.
FileDescriptor open_log(const std::string& path);

}  // namespace mrmf
