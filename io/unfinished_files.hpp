// Files that must not outlive the process unfinished, whatever ends it.
#pragma once

#include <string>

namespace mrmf {

/// While it lives, a signal that would end the process (SIGINT, SIGTERM, SIGHUP, SIGUSR1) removes the file first. Where
/// the program handles such a signal itself, nothing changes: it then ends by its own way, and destructors run. A few
/// can live at a time; further ones are not watched.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  int place_ = -1;  // in the table; -1: not watched
};

/// What a handler of a signal calls before it ends the process: removes the files that are watched.
void remove_unfinished_files();

}  // namespace mrmf
