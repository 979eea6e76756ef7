// The fused kernel, the loops of batch norm, the products of locally connected layers and the direct kernels for AVX2
// with FMA. See conv_pool_relu.inl, batch_norm.inl, locally_connected.inl and direct_kernels.inl.
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
