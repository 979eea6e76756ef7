// The direct kernels for what every processor of the architecture has: SSE2, or on ARM Neon, which has twice as many
// registers. See direct_kernels.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 4
#ifdef __aarch64__
#define DIRECT_TILE 12
#else
#define DIRECT_TILE 6
#endif

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& generic_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct
