// MPI for the life of a program.
#pragma once

#include <string>

namespace mrmf {

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

}  // namespace mrmf
