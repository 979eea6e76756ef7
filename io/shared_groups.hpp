// The groups of a data set's files, on all ranks. Private to io/.
#pragma once

#include <vector>

#include "io/dataset.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// The groups of all files, of which every rank has those of its piece() of the files. Collective.
std::vector<GroupsAsRows> share_groups(const std::vector<GroupsAsRows>& groups, Comm& comm);

}  // namespace mrmf
