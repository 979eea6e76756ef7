// The kernels for AVX2 with FMA. See the .inl files below, and vector_kernels.hpp for who uses them.
#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "kernels/cpu/instructions_avx2.inl"
// Kernels:
#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/sparse_products.inl"

namespace mrmf::cpu::sparse {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::sparse

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* avx2_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#define DIRECT_TILE 6

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct
