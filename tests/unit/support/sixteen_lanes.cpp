// The kernels of 16 lanes for processors that have AVX2 alone, so that what they compute is tested on those as well:
// the same source as for AVX-512, with plain loops where instructions_avx512.inl has its instructions. Slow.
#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "tests/unit/support/instructions_sixteen_lanes.inl"
// Kernels:
#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/sparse_products.inl"

namespace mrmf::cpu::sparse {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::sparse

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* avx512_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#define DIRECT_TILE 4  // of 12: AVX2 has not the registers, and compilers take minutes to find that out

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx512_kernels() { return kernel_set; }
const bool sixteen_lanes_need_avx512 = false;
}  // namespace mrmf::cpu::direct
