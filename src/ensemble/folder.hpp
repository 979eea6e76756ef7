// An ensemble's folder: whose it is, who works in it, and what its journals say.
//
//   ensemble.json   what it is made of             owner.json   who works in it
//   journal*.txt    what became of each member      rows.bin     the rows of those that are done
//   part-<k>/       the same of a job array's task  work/        members at work, each in a folder of its own
//   members/        the runs of trainings           rounds/      the models of ensemble.rounds
//   data.h5, data.toml, members.csv, result.json    what it comes to
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/timer.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/journal.hpp"
#include "src/ensemble/spec.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {

/// One of the tasks that share an ensemble's members, each a process of its own with a folder of its own. Task `index`
/// of `count` has a contiguous share. Count 1: there is no other.
struct ArrayTask {
  Index index = 0, count = 1;
};

/// Says in a folder who works there, for as long as it lives: host, process and job. On the root.
class FolderOwner {
 public:
  /// ConfigError, with who it is, where another process works there: one of this host that lives, or one of another
  /// host that said so less than a minute ago. What a killed process or an earlier start of the same job left is taken
  /// over.
  explicit FolderOwner(const std::string& folder);
  ~FolderOwner();
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;
  /// Says so again, now and then. Call it more often than once in ten seconds.
  void still_here();

 private:
  std::string path_, text_;
  std::optional<FolderLock> lock_;
  Timer said_;
};

/// ConfigError where somebody works in the folder.
void require_nobody(const std::string& folder);
bool somebody_works(const std::string& folder);

/// What became of a member, over all tries.
struct MemberState {
  bool done = false;
  int attempts = 0;              ///< failed ones and the last
  double seconds = 0;            ///< of the last
  std::uint64_t row = 0;         ///< the checksum of its row
  std::size_t folder_index = 0;  ///< the folder that has its row, among Members::folders
  std::string reason{};          ///< why it failed
};

/// All members of an ensemble, as its journals say.
struct Members {
  std::vector<MemberState> states;
  std::vector<std::string> folders;  ///< the ensemble's own, then those of parts
  Index twice = 0;                   ///< members that journals call done more than once
  std::vector<std::string> damaged;  ///< lines of journals that cannot be read, as "file:line"

  Index done() const;
  Index failed(int retries) const;  ///< for good
};

/// The folder of a part; the ensemble's own, if there is one part alone.
std::string folder_of(const EnsembleSpec& spec, const ArrayTask& part);

/// The ensemble's own folder, then those of its parts that there are.
std::vector<std::string> all_folders(const EnsembleSpec& spec);

/// Makes the folder if necessary and marks it as this ensemble's. ConfigError where it holds another one, with the
/// first difference, or other files. On the root.
void open_folder(const EnsembleSpec& spec, const std::vector<Point>& points);

/// Removes what killed processes had begun to write in an ensemble's folder, where nobody works.
void remove_unfinished(const std::string& folder);

/// The journals of a folder: kJournalName, and those of ranks that have not been gathered.
std::vector<std::string> journals_in(const std::string& folder);
inline constexpr const char* kJournalName = "/journal.txt";

/// Reads all journals; a line that is in two of them counts once. DataError where one cannot be read.
Members read_members(const EnsembleSpec& spec, Index members);

/// DataError naming what lies in the ensemble's folder and is not of it: a member has written it.
void require_own_names(const std::string& folder);

}  // namespace mrmf
