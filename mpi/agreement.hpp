// When one rank fails, all of them must know, or the others wait for ever in their next collective call.
#pragma once

#include <functional>

#include "mpi/comm.hpp"

namespace mrmf {

/// Collective. Runs `action` on every rank; when it throws on some, every rank throws the error of the lowest of
/// them, of the same class and with the same text (prefixed with "rank r: " unless all ranks failed).
/// `action` must not leave collective calls half done when it throws.
void together(Comm& comm, const std::function<void()>& action);

}  // namespace mrmf
