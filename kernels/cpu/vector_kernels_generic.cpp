// The kernels for what every processor of the architecture has: SSE2, or on ARM Neon. See the .inl files below, and
// vector_kernels.hpp for who uses them.
#include "kernels/cpu/vector_kernels.hpp"
// Behind it, because the kernels are written in its terms:
#include "kernels/cpu/instructions_generic.inl"
// Kernels:
#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/sparse_products.inl"

namespace mrmf::cpu::sparse {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::sparse

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* generic_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#ifdef __aarch64__
#define DIRECT_TILE 12  // twice as many registers
#else
#define DIRECT_TILE 6
#endif

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& generic_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct

#ifndef __x86_64__
// Other processors have one instruction set, `generic`, so nobody calls these.

namespace mrmf::cpu::fused {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
const Kernels* avx512bf16_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::fused

namespace mrmf::cpu::sparse {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::sparse

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return generic_kernels(); }
const KernelSet& avx512_kernels() { return generic_kernels(); }
const AmxKernels& amx_kernels() {
  static const AmxKernels none{generic_kernels().plain, generic_kernels().plain, generic_kernels().plain};
  return none;
}
const bool sixteen_lanes_need_avx512 = true;
}  // namespace mrmf::cpu::direct

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::local {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::local

namespace mrmf::cpu::fma {
const Loop* avx2_loop() { return generic_loop(); }
const Loop* avx512_loop() { return generic_loop(); }
}  // namespace mrmf::cpu::fma
#endif
