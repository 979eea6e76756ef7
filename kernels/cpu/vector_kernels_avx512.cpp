// The kernels for AVX-512. See the .inl files below, and vector_kernels.hpp for who uses them.
#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "kernels/cpu/instructions_avx512.inl"
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

#define DIRECT_TILE 12

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx512_kernels() { return kernel_set; }
const bool sixteen_lanes_need_avx512 = true;
}  // namespace mrmf::cpu::direct
