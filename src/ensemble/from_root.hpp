// What the root reads in an ensemble's folder, given to all ranks. Other parts write there at the same time, and a
// shared file system shows a new file to some nodes later than to others: ranks that each read for themselves may not
// see the same, and would no longer agree on what comes next.
#pragma once

#include "mpi/comm.hpp"
#include "src/ensemble/folder.hpp"
#include "src/ensemble/rounds.hpp"

namespace mrmf {

/// read_members() of the root. Collective; an error of the root's is thrown on all ranks.
Members members_from_root(const EnsembleSpec& spec, Index members, Comm& world);

/// read_rounds() of the root. Collective; an error of the root's is thrown on all ranks.
RoundPoints rounds_from_root(const EnsembleSpec& spec, Comm& world);

}  // namespace mrmf
