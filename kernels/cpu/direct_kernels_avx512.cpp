// The direct kernels for AVX-512. See direct_kernels.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define DIRECT_TILE 12

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx512_kernels() { return kernel_set; }
#ifdef __AVX512F__
const bool sixteen_lanes_need_avx512 = true;
#else
const bool sixteen_lanes_need_avx512 = false;
#endif
}  // namespace mrmf::cpu::direct
