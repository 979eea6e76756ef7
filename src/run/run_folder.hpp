// A run's folder, held against other runs and against accidents; and the folders of a split's folds.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mrmf {

// A run writes into its folder:
//
//   .mrmf-run     the mark: this folder is a run's    epochs.jsonl  one line per epoch
//   config.toml   the effective configuration         stages.jsonl  one line per phase
//   plan.json     the plan                            result.json   written last: its presence means the run is done
//   log.txt       what was printed                    checkpoints/  phase-<n>.h5, teams.json; at the end
//   left_out.txt  rows with NaN, where there are some               final.h5, best.h5
//   team/         the second team's lines, while two teams train at once
//
//   tournament.jsonl   where trainers met; their own folders are trainer-0, trainer-1, ...
//
// Nothing else in it is ever replaced or removed, and nothing is written through a link.

/// Holds a folder as long as it lives. The system releases it when the process ends in any way, and nothing is left in
/// the folder. If a file system has no locks, or only some nodes see them, nothing is held.
class FolderLock {
 public:
  /// Does not hold a folder that is missing or unreadable. ConfigError when another process holds it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Makes the folder if necessary, holds it, and marks it. Before keep(), the destructor removes what was made: the
/// files by name, the folders if empty. On the root.
class RunFolder {
 public:
  /// ConfigError when another run holds it, or when it holds a finished run and `overwrite` is false. Whatever
  /// `overwrite` says, ConfigError when it is neither a run's nor empty, or when a name that a run writes is a link or
  /// a folder. An older version's run is allowed, and what the scripts of jobs/ put there first. DataError when it
  /// cannot be written.
  RunFolder(const std::string& path, bool overwrite);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// The run has begun, so everything stays.
  void keep();
  /// Whether `file` (by any name) is the configuration that a run keeps here.
  bool is_own_config(const std::string& file) const;

 private:
  void hold();
  void require_own(bool overwrite) const;
  void mark();

  std::string path_;
  std::optional<FolderLock> lock_;
  std::vector<std::string> made_folders_, made_files_;  // outermost first
};

/// The checkpoint of a phase of a run's plan, by its number: checkpoints/phase-<n>.h5 in the run's folder. Earlier
/// versions called it step-<n>.h5: that name where such a file is there, so that their runs continue under it.
std::string checkpoint_file(const std::string& folder, int phase);
/// The phase of a file of either name ("phase-2.h5"); 0: it is no checkpoint's.
int phase_of_checkpoint(const std::string& name);

/// Removes a finished run's result and, unless the run continues for more epochs, its models. DataError when it cannot.
enum class Models { remove, keep };
void remove_result(const std::string& folder, Models models);
/// Removes the model of the best epoch, where it is the last one's. DataError when it cannot.
void remove_best_model(const std::string& folder);
/// Removes TensorBoard's event file, of a start of the run that wrote one. DataError when it cannot.
void remove_events(const std::string& folder);
/// Removes all checkpoints (phase-<n>.h5) but `kept`, found by a run or not, and half-written ones.
void remove_checkpoints(const std::string& folder, const std::string& kept = "");
/// Removes the second team's records, and their folder if it is then empty.
void remove_team_records(const std::string& folder);

// Where the runs of a split's folds lie: fold-0, fold-1, ... in one folder.

/// The folder of a fold's run, within the folder that the configuration names.
std::string fold_folder(const std::string& folder, int fold);

/// The number of the first folder of a fold, from this one on, that exists; -1: there is none among the next thousand.
int first_fold_from(const std::string& folder, int fold);

/// The file that says what the folds of a folder were asked for with.
std::string folds_config(const std::string& folder);

/// The runs of its folds in place of a folder that has some and is no run's; all others stay.
std::vector<std::string> with_folds(const std::vector<std::string>& folders);

}  // namespace mrmf
