// An end for the blocking MPI calls that have no non-blocking form. Private to mpi/.
#pragma once

#include <thread>

namespace mrmf::mpi {

/// While one lives, the calling thread is in a call that the ranks make together, which no exception can leave. If it
/// lives for longer than `limit` seconds (0: it may), a thread of its own throws FaultError, and nothing catches that:
/// it ends the program, by main's handler with the message and for all ranks.
class Deadline {
 public:
  Deadline(double limit, const char* function);

 private:
  std::jthread watcher_;
};

}  // namespace mrmf::mpi
