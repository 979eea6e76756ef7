// Sums over the ranks of a team in device memory. Implemented by mpi/nccl_all_reduce.cpp.
#pragma once

#include <memory>

#include "kernels/backend.hpp"

namespace mrmf::cuda {

class Device;

/// Collective over the peers. FaultError when NCCL cannot connect them.
std::unique_ptr<RankSum> make_rank_sum(Device& device, const Peers& peers);

}  // namespace mrmf::cuda
