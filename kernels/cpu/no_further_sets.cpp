// For processors that are not x86-64 (CMakeLists.txt leaves this file out for x86-64): they have one instruction set,
// `generic`, so nobody calls these.
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu::fused {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
const Kernels* avx512bf16_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::fused

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return generic_kernels(); }
const KernelSet& avx512_kernels() { return generic_kernels(); }
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
