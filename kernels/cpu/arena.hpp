// Memory of the host for backends: their own, and some that other processes of the same user can map.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf::cpu {

/// Zeroed, 64-byte aligned floats; in huge pages where there are many.
Arena make_arena(Index count);

/// Whether so much is written here that nothing of it is still in the caches when it is read: kernels then write past
/// them, which saves reading every line first. False also where lines of 64 bytes do not begin at the first value.
bool exceeds_caches(ConstSpan values);
/// The same of a tensor that is written in whole lines of 64 bytes: one that is no slice, of 16 channels or a multiple.
bool streams(const Tensor& written);

/// Zeroed floats in a file that is in no file system, with a name that no other has: "mrmf" and random numbers. Only
/// readers of /proc/PID/fd find it. It ends with the arena and its mappings. Where the system makes no such file, or
/// has no room for it, memory of the backend without one.
Arena allocate_shared(Backend& backend, Index count);

}  // namespace mrmf::cpu
