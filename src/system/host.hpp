// The node this rank runs on, and who else does.
#pragma once

#include <string>

#include "mpi/comm.hpp"

namespace mrmf {

std::string host_name();

/// The ranks that give the same text. Collective.
Comm ranks_of_same(const std::string& text, Comm& world);

/// Bytes of memory that this process may use: the node's, or the least limit of its control groups (as a scheduler sets
/// them for a job).
double host_memory();

}  // namespace mrmf
