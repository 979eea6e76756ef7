// The direct kernels for AVX2 with FMA. See direct_kernels.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 8
#define DIRECT_TILE 6

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct
