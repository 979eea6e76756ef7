// What a launcher says that it has started, for programs that MPI has not told of each other.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mrmf {

/// Tasks that were started together, and which of them this process is.
struct LaunchedTasks {
  std::string launcher;  ///< "srun", "mpirun", or the variable that tells
  int count = 1;         ///< at least
  int rank = 0;
  int lowest = 0;       ///< rank of those that know of it
  std::string apart{};  ///< of srun: settings of variables with which each task works by itself
  bool first() const { return rank == lowest; }

  /// What is wrong and what to do, where MPI sees one rank: one line. `mpi` is the program's own MPI, as a user knows
  /// it.
  std::string text(const std::string& mpi) const;
};

/// A variable of the environment; null where it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Whether a launcher has told MPI of this process: mpirun, or srun with one of its MPI plugins. Without, MPI sees one
/// rank.
bool mpi_is_told(const Variable& variable);

/// Whether srun has told this process of the others by PMI-1 or PMI-2 and nothing else, which not every MPI understands
/// (mpi/pmi_support.hpp).
bool only_told_by_sruns_pmi(const Variable& variable);

/// The tasks of which this process, which MPI takes for a single rank, is one; none if it was started by itself. The
/// innermost launcher counts. What a batch job was given (SLURM_NTASKS) is none: its script may start a single process.
/// Nor is a shell on a terminal that srun has started.
std::optional<LaunchedTasks> launched_tasks(const Variable& variable);

}  // namespace mrmf
