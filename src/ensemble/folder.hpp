// What is kept in an ensemble's folder, and how all ranks come to know the same of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "kernels/tensor.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/ensemble/active_learning.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/spec.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {

// What has become of each member: a journal of lines, appended only, each with its checksum.

/// What became of a try to make a member. One line of a journal.
struct Attempt {
  Index member = 0;
  bool done = false;       ///< else it failed
  int number = 1;          ///< the first try is 1
  double seconds = 0;      ///< that it took
  std::uint64_t row = 0;   ///< done: the checksum of its row
  std::string reason{};    ///< failed: why, in one line
  std::uint64_t line = 0;  ///< the checksum of the line that it was read from
};

/// A journal in the making. A line is in it wholly, or is seen to be torn: then it counts as not written.
class Journal {
 public:
  /// Opens the file, or makes it. A line that a killed process left torn is ended first.
  explicit Journal(const std::string& path);
  /// Returns when the lines are on disk. DataError when they cannot be written; then none of them is there.
  void append(std::span<const Attempt> attempts);

 private:
  LineFile file_;
};

/// The lines of a journal, in their order; `damaged` are those whose checksum is wrong, numbered from 1.
struct JournalText {
  std::vector<Attempt> attempts;
  std::vector<Index> damaged;
};
/// None where there is no such file. DataError when it cannot be read.
JournalText read_journal(const std::string& path);

/// The checksum of a row.
std::uint64_t row_checksum(std::span<const std::byte> row);

// An ensemble's folder: whose it is, who works in it, and what its journals say.
//
//   ensemble.json   what it is made of             owner.json   who works in it
//   journal*.txt    what became of each member      rows.bin     the rows of those that are done
//   part-<k>/       the same of a job array's task  work/        members at work, each in a folder of its own
//   members/        the runs of trainings           rounds/      the models of ensemble.rounds
//   data.h5, data.toml, members.csv, result.json    what it comes to

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

// What the root reads in an ensemble's folder, given to all ranks. Other parts write there at the same time, and a
// shared file system shows a new file to some nodes later than to others: ranks that each read for themselves may not
// see the same, and would no longer agree on what comes next.

/// read_members() of the root. Collective; an error of the root's is thrown on all ranks.
Members members_from_root(const EnsembleSpec& spec, Index members, Comm& world);

/// read_rounds() of the root. Collective; an error of the root's is thrown on all ranks.
RoundPoints rounds_from_root(const EnsembleSpec& spec, Comm& world);

}  // namespace mrmf
