// An ensemble, from its members to the data set that they come to: what makes members (members.cpp,
// child_process.cpp), rounds of active learning, the folder with its journals, and making and collecting all of them
// (scheduler.cpp, collect.cpp, ensemble.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/files/output_file.hpp"
#include "kernels/tensor.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/ensemble/spec_and_design.hpp"
#include "src/run/run_folder.hpp"
#include "src/simulators/member_simulator.hpp"

namespace mrmf {

// A program that is run for one member, as a child process.

struct ChildCall {
  std::vector<std::string> words;                                  ///< the program, by path, and its arguments
  std::string folder;                                              ///< its working folder; "": ours
  std::string log;                                                 ///< file for what it prints, by a path of ours
  std::vector<std::pair<std::string, std::string>> environment{};  ///< set in addition
  /// Where it may make, change and remove files, beside its working folder; elsewhere the system refuses it
  /// (Landlock), where the kernel can. Only if `confined`.
  std::vector<std::string> writable{};
  bool confined = false;
};

struct ChildEnd {
  int code = 0;          ///< its exit code; of one that a signal ended, 128 + the signal's number
  bool stopped = false;  ///< it was told to stop, because we are
};

/// Runs a program to its end. It does not outlive this process, nor what it started outlive it; it reads nothing, gets
/// nothing of MPI's environment, and SIGTERM when `stop` becomes true. FaultError when it cannot be started, DataError
/// when its log cannot be written.
ChildEnd run_child(const ChildCall& call, const std::atomic<bool>& stop);

/// The last line of a log that is not blank, of at most 300 characters; "" without one.
std::string last_line(const std::string& log);

// What makes an ensemble's members: a simulator, trainings, or a program of the user's.

/// Where members do their work, and whether they are to stop.
struct Workplace {
  std::string folder;  ///< the ensemble's folder, or that of its part
  const std::atomic<bool>& stop;
  int threads = 1;  ///< threads of a child process
};

/// A member's error when it did not fail but was told to stop: it is as if it had never begun.
inline constexpr const char* kToldToStop = "told to stop";

/// Members of a spec. Those that are child processes work below the folder of `workplace`, which must outlive this.
std::unique_ptr<MemberSimulator> make_members(const EnsembleSpec& spec, const Workplace& workplace);

/// The parts of every member's row.
std::vector<MemberArray> row_arrays_of(const EnsembleSpec& spec);

/// The values that make() takes for a point.
std::vector<double> values_of(const EnsembleSpec& spec, const Point& point);

/// The folder of a member's training, below that of the ensemble.
std::string training_folder(const std::string& folder, Index member);

/// How a member is trained: the keys that it sets. `done`: its run has ended already.
struct TrainingCall {
  std::string run;
  std::vector<std::string> settings;
  bool done = false;
};
TrainingCall training_call(const EnsembleSpec& spec, const std::string& folder, Index member, const Point& point);
/// The row of a finished run. DataError where its result cannot be read.
void read_training(const std::string& run, std::span<std::byte> row);

/// Names of the numbers of a training's row.
inline constexpr const char* kTrainingResults[] = {"validation_loss", "best_validation_loss", "epochs",
                                                   "training_seconds"};

// A surrogate in the loop: models learn what members come to from the design's keys, and members are added where these
// models disagree most.

/// The points that rounds have added so far, in their order, and how many rounds that were.
struct RoundPoints {
  std::vector<Point> points;
  int rounds = 0;
};

/// What the rounds' record in the ensemble's folder says; none where there is none. DataError where it is damaged
/// before its last line.
RoundPoints read_rounds(const EnsembleSpec& spec);

/// Which of the candidates (points of the unit cube) are taken: those of the highest disagreement, but none close to
/// one that was taken before it.
std::vector<std::size_t> choose_candidates(const std::vector<Point>& candidates,
                                           const std::vector<double>& disagreement, Index wanted);

/// One round: trains the models on the ensemble's data set, several at once, lets them predict candidates, and records
/// the points that it adds. On the root, from a data set that holds all members so far. Returns a line for people.
/// FaultError where a training fails; throws Stopped when `workplace` says so. A round that was interrupted continues.
std::string add_round(const EnsembleSpec& spec, const std::vector<Point>& points, int round,
                      const Workplace& workplace);

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
  double seconds = 0;            ///< how long the last took
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

// Making what is left of an ensemble's members, several at once, on one rank or many.

/// Everything that making members needs, the same on all ranks.
struct Ensemble {
  EnsembleSpec spec{};
  std::vector<Point> points{};   ///< the design's, then those that rounds have added
  Index designed = 0;            ///< the former
  std::string folder{};          ///< the part's folder
  std::vector<Index> pending{};  ///< members to be made
  std::vector<int> attempts{};   ///< that each member had before
};

struct Made {
  Index members = 0;  ///< by all ranks
  int signal = 0;     ///< that one of them got; 0: none
};

/// Collective. Makes the pending members, and keeps each in rows.bin and in a journal as it is done. Ranks draw members
/// as they are ready for more. Ends early after a stop signal. `beat` is called now and then with the members that this
/// rank has made. DataError where they cannot be kept; what failed of a member is in the journal alone.
Made make_pending(const Ensemble& ensemble, Comm& world, const std::function<void(Index)>& beat);

// What an ensemble comes to: one data set that `mrmf train` reads, and one table.

/// A row is numbers of its parts, one part after the other, in this file of a folder.
inline constexpr const char* kRowsName = "/rows.bin";

/// Which of so many members validate: about `share` of them, by `seed`, and one at least of two or more.
std::vector<bool> validation_members(const std::vector<Index>& members, double share, std::uint64_t seed);

/// Collective. Writes the rows of all members that are done, in their order, into data.h5, whole or not at all:
///   the members' own parts   as they made them
///   labels      (n, keys)    float32, each key's range or list scaled to [-1, 1]
///   parameters  (n, keys)    float64, the keys' values
///   summaries   (n, 4 x c)   float32: of each of the c channels of the first part mean, deviation, least and most
///   member      (n,)         uint32    split  (n,)  uint8: 1 validates
///   meta.JSON                what it was made of
/// Returns the members whose rows are not what their journals say; then nothing was written.
std::vector<Index> collect(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members,
                           Comm& world);

/// The table, with a line for each member.
std::string members_csv(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members);

/// The [data] section of a configuration that trains on the data set.
std::string data_section(const EnsembleSpec& spec);

// A whole ensemble: its members are made, whatever is left of them, and collected.

struct EnsembleRun {
  ArrayTask part;               ///< this task's share of a job array; the whole ensemble collects, its parts do not
  bool retry_failed = false;    ///< members that failed for good are tried anew
  std::ostream* out = nullptr;  ///< for lines to people, on the root
  bool terminal = false;        ///< `out` is a terminal: show a live line
};

struct EnsembleReport {
  Index members = 0, done = 0;  ///< members of the ensemble, or of the part
  Index made = 0;               ///< by this call
  Index twice = 0;              ///< that journals call done more than once: rows that were damaged and made anew
  double seconds = 0;           ///< this call's
  double member_seconds = 0;    ///< those of all members that are done, added up
  std::vector<std::pair<Index, std::string>> failed;  ///< for good, with the reason
  std::string data;                                   ///< the data set; "" where nothing was collected
};

/// Collective. Makes what is left of the members, several at once on each rank, and then, unless this is a part,
/// collects: data.h5, data.toml, members.csv and result.json in spec.folder. What was made is kept whenever this ends.
/// Throws Stopped after a stop signal: the same call continues. ConfigError where the folder is another ensemble's, or
/// somebody works in it; FaultError where a member wrote outside of its folder. Failed members are no error here.
EnsembleReport run_ensemble(EnsembleSpec spec, const EnsembleRun& run, Comm& world);

/// The report as JSON, for programs; `program`, where it is given, comes first.
std::string to_json(const EnsembleReport& report, const std::string& program = "");

/// "17, 401 and 3 more": the members' numbers, for a message.
std::string failed_text(const EnsembleReport& report, int retries);

}  // namespace mrmf
