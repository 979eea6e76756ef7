// What the root does for all ranks and may take long.
#pragma once

#include <functional>

#include "mpi/comm.hpp"

namespace mrmf {

/// Collective. Runs `action` on the root alone, for as long as it takes: the other ranks wait for it without a limit.
/// When it throws, every rank throws the same error.
void collective_try_on_root(Comm& comm, const std::function<void()>& action);

}  // namespace mrmf
