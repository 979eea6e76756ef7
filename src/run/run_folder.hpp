// The folder of a run, held against other runs and against accidents. What a run writes into it:
//
//   .mrmf-run     the mark: this folder is a run's    epochs.jsonl  one line per epoch
//   config.toml   the effective configuration         stages.jsonl  one line per phase
//   plan.json     the plan                            result.json   written last: its presence means the run is done
//   log.txt       what was printed                    checkpoints/  step-<n>.h5, teams.json; at the end final.h5
//   team/         the second team's lines, while two teams train at once
//
// Nothing else in it is ever replaced or removed, and nothing is written through a link.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

/// Makes the folder where there is none, holds it, and marks it. Until keep(), its end takes back what it made: the
/// files by name, the folders where they are empty. On the root.
class RunFolder {
 public:
  /// ConfigError: another run holds it; it holds a finished run, and `overwrite` is false; it is not a run's and not
  /// empty (but for an older version's run, and what the scripts of jobs/ put there first), whatever `overwrite` says;
  /// a name that a run writes is a link or a folder. DataError: it cannot be written.
  RunFolder(const std::string& path, bool overwrite);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// The run has begun: everything stays.
  void keep();
  /// Is `file` (by any name) the configuration that a run keeps here?
  bool is_own_config(const std::string& file) const;

 private:
  void hold();
  void require_own(bool overwrite) const;
  void mark();

  std::string path_;
  std::optional<FolderLock> lock_;
  std::vector<std::string> made_folders_, made_files_;  // outermost first
};

/// Removes a finished run's result and model, of a run that begins anew in its folder. DataError: one cannot be.
void remove_result(const std::string& folder);
/// Removes all checkpoints (step-<n>.h5), found or not by a run, and what writing them has left half-done.
void remove_checkpoints(const std::string& folder);
/// Removes the second team's records, and their folder when it is empty then.
void remove_team_records(const std::string& folder);

}  // namespace mrmf
