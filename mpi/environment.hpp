// How a program of many ranks starts and ends: what its launcher (mpirun, srun, ...) says, MPI for the life of the
// program, and one end with one exit code.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mrmf {

// What a launcher says that it has started, for programs that MPI has not told of each other; and launchers that the
// program's MPI does not understand.

/// Tasks that were started together, and which of them this process is.
struct LaunchedTasks {
  std::string launcher;  ///< "srun", "mpirun", "jsrun", "flux run", or the variable that tells
  int count = 1;         ///< at least
  int rank = 0;
  int lowest = 0;       ///< rank of those that know of it
  std::string apart{};  ///< settings of variables by which each task works by itself
  bool counted = true;  ///< the count is known
  bool first() const { return rank == lowest; }

  /// What is wrong and what to do, where MPI sees one rank: one line. `mpi` is the program's own MPI, as a user knows
  /// it.
  std::string text(const std::string& mpi) const;
  /// The same of a task that is not the first, which says it all: a short line, for a log of its own.
  std::string short_text() const;
};

/// A variable of the environment; null where it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Whether a launcher has told MPI of this process: mpirun, or srun with one of its MPI plugins. Without, MPI sees one
/// rank.
bool mpi_is_told(const Variable& variable);

/// Whether this process is rank 0, as the launcher says, before MPI is there to ask; true without a launcher.
bool is_first_task(const Variable& variable);

/// Whether a variable of the environment, as "NAME=value", tells a process of the tasks that it was started with. A
/// child that is no rank of ours is started without these.
bool tells_of_tasks(std::string_view variable);

/// Whether srun has told this process of the others by PMI-1 or PMI-2 and nothing else, which not every MPI
/// understands.
bool only_told_by_sruns_pmi(const Variable& variable);

/// The tasks of which this process, which MPI takes for a single rank, is one; none if it was started by itself. The
/// innermost launcher counts. What a batch job was given (SLURM_NTASKS) is none: its script may start a single process.
/// Nor is a shell on a terminal that srun has started. But a rank above 0 (SLURM_PROCID) is srun's, whatever else it
/// has said: neither scripts nor shells have one.
std::optional<LaunchedTasks> launched_tasks(const Variable& variable);

/// srun tells its tasks of each other by PMI-1 or PMI-2 where it is asked to (--mpi=pmi2, or MpiDefault of the site).
/// Open MPI that was built without them, as most packages are, then ends a program with a page of text while it starts.
/// This takes their variables out of the environment, so that the process is one whom MPI was not told of:
/// launched_tasks() sees the others, and a single task just runs. Does nothing where MPI may understand them, or
/// another launcher has set them. Call it before MPI is initialised.
void forget_unknown_pmi();

// MPI for the life of a program.

/// Initialises MPI for the life of the program and finalises it. One per process, in main; it must outlive every Comm
/// and Hdf5File. Works without mpirun too (one rank). Sets defaults of Open MPI that the user's environment does not
/// set. Only the thread that made it may use a Comm (MPI_THREAD_FUNNELED).
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  static int rank();   ///< in the world
  static int ranks();  ///< ranks of the world
  /// Ends all ranks of the world at once, without unwinding. Only main's last resort.
  [[noreturn]] static void abort(int exit_code);
  /// "Open MPI v4.1.4, ..." for logs and results.
  static std::string version();
};

// How a program of many ranks ends: together, with one exit code, and one line about what went wrong.

/// The ranks' agreement about their end. One per process, in main: made after MpiEnvironment, gone before it.
///
/// An error that every rank has, such as one in the configuration, is no reason for MPI_Abort, which ends ranks before
/// they have spoken and prints pages of its own: the ranks find out that all of them have come to their end, one of
/// them speaks, and MPI is finalised as usual. Only ranks that wait in vain for the others abort.
class CommonEnd {
 public:
  /// Collective over the world.
  CommonEnd();
  ~CommonEnd();
  CommonEnd(const CommonEnd&) = delete;
  CommonEnd& operator=(const CommonEnd&) = delete;

  /// How the command has ended on this rank.
  struct Mine {
    int exit_code = 0;    ///< 0 to 255
    bool failed = false;  ///< by an error, of which a line is to be said
  };
  /// How it has ended on all ranks together.
  struct Common {
    int exit_code =
        0;            ///< exit code of the lowest rank that failed; of another that does not end with 0, if none failed
    int failed = -1;  ///< the lowest rank that failed; -1: none
  };
  /// Collective. Returns when every rank has called it. A rank that failed gives up after `kLimit` seconds: the others
  /// are elsewhere, perhaps in a call in which they wait for this rank. It must then end all of them. It gives up at
  /// once where messages of this rank are still under way, whose memory may be gone.
  std::optional<Common> agree(const Mine& mine) const;

  /// How long a rank that failed waits for the others. On a busy machine they come seconds after each other.
  static constexpr double kLimit = 5;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
