// What a launcher says that it has started, for programs that MPI has not told of each other; and launchers that the
// program's MPI does not understand.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mrmf {

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

}  // namespace mrmf
