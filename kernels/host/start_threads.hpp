// Whether the system lets this process start the threads that it wants to compute with.
#pragma once

namespace mrmf {

/// FaultError unless so many threads (or as many as OMP_THREAD_LIMIT leaves of them) can be started. To be asked before
/// OpenMP starts them: what it cannot start ends the process with a line of its own.
void require_threads(int wanted);

}  // namespace mrmf
