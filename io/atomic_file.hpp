// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "mpi/comm.hpp"

namespace mrmf {

/// Returns when what was written to this file, or made in this folder, is on disk. DataError when it cannot be put
/// there.
void sync_to_disk(const std::string& path);

/// Puts `written` in the place of `target` so that a crash at any moment leaves the old file or the new one: syncs the
/// file, renames it, syncs the folder. Both are in the same folder. Run on one rank. DataError when it cannot.
void atomic_replace(const std::string& written, const std::string& target);

/// Puts a file of these bytes in the place of `target`, written beside it first ("<target>.partial"). Run on one rank.
/// DataError when it cannot: the disk is full, the folder cannot be written. What was there before is then still there,
/// and nothing is beside it.
void atomic_write(const std::string& target, std::string_view bytes);

/// A name to write under ("<target>.partial") until commit(); without commit() the file is removed again, so a command
/// that fails leaves nothing half-written. All ranks make one; the root acts.
class PartialFile {
 public:
  PartialFile(std::string target, const Comm& comm);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  const std::string& path() const { return path_; }
  /// Collective, after the file was closed.
  void commit();

 private:
  std::string target_, path_;
  Comm comm_;
  bool committed_ = false;
};

}  // namespace mrmf
