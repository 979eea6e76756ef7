// A hash of what an arena holds, whichever memory it is in.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// XXH3 of the values' bytes. Reads a few megabytes at once, so that no second copy of a large model is needed.
std::uint64_t arena_hash(Backend& backend, ConstSpan values, std::uint64_t seed = 0);

}  // namespace mrmf
