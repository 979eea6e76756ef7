// Messages between the ranks that share a sample, over MPI.
#pragma once

#include <memory>

#include "kernels/collectives.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// Between the ranks of a group, from and to the host's memory. Keeps a reference to `group`. finish() throws
/// FaultError where a rank keeps the others waiting for longer than the group's limit.
std::unique_ptr<Messages> make_messages(Comm& group);

}  // namespace mrmf
