// The sums that training takes over a team: of gradients, and of batch norm's statistics.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// The backend's own where it has one (NCCL), else MPI on the host's memory; null for a team of one. Collective; keeps
/// a reference to `team`.
std::unique_ptr<RankSum> make_team_sum(Backend& backend, Comm& team);

}  // namespace mrmf
